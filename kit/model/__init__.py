"""Models: the families, their construction from recipes, recipe checks, and decoding sessions."""
