"""Which algorithm serves a call, and the operators by which PyTorch knows it."""
