"""Judging trained models: figures with intervals, and whether one model is better than another."""
