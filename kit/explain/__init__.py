"""Explaining a recipe: the tree of parts, parameters, FLOPs and memory, differences between recipes."""
