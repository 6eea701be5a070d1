"""Small models, parts and searches to try them with, and checks that any of them has to pass."""
