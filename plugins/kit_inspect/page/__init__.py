"""Attention page: one self-contained HTML file that draws the attention of one sequence."""
