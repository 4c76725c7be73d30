"""The player: one canvas with one clock, drawn in the browser from one packed payload."""

from pathlib import Path

from app.canvas.moving import Moving

HERE = Path(__file__).parent
PLAYER = Moving("attention_player", HERE / "player.html", "Player", on_canvas=True)  # of what `payload` packs
