"""Loop nests over tiles, the steps of their bodies, and the columns that they unroll to."""
