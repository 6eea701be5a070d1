"""Checkpoints of a training: what they hold, how they are stored, and loading a run."""
