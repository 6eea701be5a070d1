"""Components, plugin discovery and validation, and the registry of parts."""
