"""Trained models written for other engines."""
