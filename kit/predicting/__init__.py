"""Using a trained model: texts in, answers out, whatever the model was trained for."""
