"""The player: one canvas with one clock, drawn in the browser from one packed payload."""

from pathlib import Path

from app.canvas.moving import Played

HERE = Path(__file__).parent
PLAYER = Played("attention_player", HERE / "player.js", "Player")  # of what `payload` packs
