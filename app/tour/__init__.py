"""Guided tours: their files, the words and numbers of a step, and the pictures beside them."""
