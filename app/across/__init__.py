"""One sequence over several GPUs: a canvas with who holds what, what travels, every GPU's lanes."""

from pathlib import Path

from app.canvas.moving import Played

# of what `payload` packs
ACROSS = Played("attention_across_gpus", Path(__file__).with_name("across.js"), "Across GPUs")
