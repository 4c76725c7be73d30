"""A user's kernel as it was watched: the tiles that it touched beside FlashAttention-2's, and its source."""

from pathlib import Path

from app.canvas.moving import Played

# of what `payload` packs
WATCHED = Played("attention_watched", Path(__file__).with_name("watched.js"), "Your kernel")
