"""A server for one run: a JSON interface and a page where a person types and sees the answer."""
