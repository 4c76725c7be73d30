"""A user's kernel as it was watched: the tiles that it touched beside FlashAttention-2's, and its source."""

from pathlib import Path

from app.canvas.moving import Moving

# of what `payload` packs
WATCHED = Moving("attention_watched", Path(__file__).with_name("watched.html"), "Your kernel", on_canvas=True)
