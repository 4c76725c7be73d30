"""A small language model of this project's own: what typed text makes of its heads, in NumPy."""
