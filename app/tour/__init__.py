"""Guided tours: their files, the words and numbers of a step, and the pictures beside them."""

from app.tour import pictures  # noqa: F401  what a step can show is known before a tour is read
