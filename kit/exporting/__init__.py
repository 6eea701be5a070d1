"""Export of trained models for other inference engines."""
