"""What flows through a model: token batches, batch layout, attention context, caches, observers."""
