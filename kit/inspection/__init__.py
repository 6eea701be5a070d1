"""Analysis of a trained model's attention: records, head masks and gradients by head."""
