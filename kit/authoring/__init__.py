"""From an idea to a package that others can install: writing one, and checking that it holds what it promises."""
