"""Bringing weights in from other libraries, and taking models out to other runtimes."""
