"""One HTML file that shows what attention did with a text: it opens anywhere, needs nothing and reaches for nothing."""
