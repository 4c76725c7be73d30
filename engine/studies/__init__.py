"""What single pages ask of the model and the recordings."""
