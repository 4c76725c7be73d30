"""How the parts of a split are combined."""

COMBINED = 16  # partial results of a row that a program combines at a time, or rows of one
