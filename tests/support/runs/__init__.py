"""Trained runs of every family, small enough to train in a second, and fixtures that open them."""
