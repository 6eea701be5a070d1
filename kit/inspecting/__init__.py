"""Seeing inside a model: what its attention does with given texts, measured, drawn, taken out and shaped."""
