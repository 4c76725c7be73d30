"""What came after FlashAttention-3, in pictures of one kind: boxes that move and fade between frames."""

from app.beyond.boxes import BOXES

__all__ = ["BOXES"]
