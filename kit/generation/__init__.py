"""Text generation: next-token log-probabilities, generation state, compiled decoding steps."""
