"""SMs over time: one canvas that replays which block ran where and when, drawn in the browser."""

from pathlib import Path

from app.canvas.moving import Played

# of what `payload` packs
REPLAY = Played("attention_on_the_gpu", Path(__file__).with_name("gpu.js"), "SMs over time")
