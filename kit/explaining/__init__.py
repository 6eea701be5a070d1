"""What a recipe comes to, before anything is trained: its parts, shapes, parameters and costs, on the meta device."""
