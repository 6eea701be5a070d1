"""Files: atomic writes, safetensors, and the sandbox of paths that a recipe may lead to."""
