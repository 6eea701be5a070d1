"""Commands: `kit inspect`, `kit probe`, `kit prune` and `kit embeddings`."""
