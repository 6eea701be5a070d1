"""Ways to compute attention, linear layers and dropout, and the one place that chooses among them."""
