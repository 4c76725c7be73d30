"""What crosses HBM, while it happens: calls above one another on one axis of time, drawn in the browser."""

from pathlib import Path

from app.canvas.moving import Played

# of what `payload` packs
HBM = Played("hbm_over_time", Path(__file__).with_name("hbm.js"), "What crosses HBM, while it happens")
