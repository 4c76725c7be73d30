"""SMs over time: one canvas that replays which block ran where and when, drawn in the browser."""

from pathlib import Path

from app.canvas.moving import Moving

# of what `payload` packs
REPLAY = Moving("attention_on_the_gpu", Path(__file__).with_name("gpu.html"), "SMs over time", on_canvas=True)
