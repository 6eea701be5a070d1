"""Prediction with a trained run."""
