"""The process that runs kernels for the pages, and the one queue before it."""
