"""Models: the families, how they are assembled from parts, and how they go on step by step."""
