"""Commands in processes of their own: trainings, servers, environments with built wheels."""
