"""A schedule executed on numbers through a memory that counts."""
