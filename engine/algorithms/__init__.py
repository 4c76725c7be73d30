"""One file an algorithm: everything that is true of it alone."""
