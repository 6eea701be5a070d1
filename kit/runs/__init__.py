"""Runs: their folders, what they were made with, and checkpoints that survive a crash and execute nothing."""
