"""Studies: many trainings from one file, compared fairly."""
