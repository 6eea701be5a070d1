"""Runs: their folders, locks, metrics and weights."""
