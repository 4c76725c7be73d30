"""The softmax of unfused attention."""

SOFTMAX_TILE = 2048  # elements of S that a softmax program holds, where a row is shorter than that
