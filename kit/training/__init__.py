"""Training: what a recipe comes to, run by Lightning, checkpointed and measured."""
