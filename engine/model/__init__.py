"""A schedule on a GPU: its blocks of threads, their bytes at each level of memory, and their seconds."""
