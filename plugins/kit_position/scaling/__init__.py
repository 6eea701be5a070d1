"""Ways to stretch rotary positions over texts longer than those a model was trained on: a kind of part, `scaling`."""
