"""Recipes: reading them with line numbers, checking them against what is installed, writing them back."""
