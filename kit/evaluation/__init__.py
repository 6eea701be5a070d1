"""Evaluation of trained runs, with intervals and paired comparisons."""
