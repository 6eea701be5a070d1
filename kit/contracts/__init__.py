"""One abstract class a kind of part: what the kit calls on it, and what it may leave to the base class."""
