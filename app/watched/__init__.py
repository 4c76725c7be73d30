"""A user's kernel as it was watched: the tiles that it touched beside FlashAttention-2's, and its source."""

from pathlib import Path
from typing import Any

import numpy as np

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.player.payload import bounds_of, drawn_sizes
from engine.experiment import Experiment
from engine.model.launch import launch
from engine.watch.steps import NAMED
from engine.watch.watch import KINDS

# of what `build` packs
WATCHED = Played("attention_watched", Path(__file__).with_name("watched.js"), "Your kernel")


COLUMNS = ("kind", "tensor", "line", "program", "query", "key", "bytes")
MARKS = ("extra", "missing", "repeated")


def build(found: dict[str, Any]) -> bytes:
    """The payload of one run that was served."""
    tiled = "visits" in found  # a lab on delta has no tiles
    experiment = Experiment.of(**found["experiment"])
    steps = found["steps"]
    arrays = _columns("own", steps["rows"])
    runs = [{"name": Path(found["file"]).name, "tensors": steps["tensors"], "programs": steps["programs"]}]
    header: dict[str, Any] = {
        "kinds": KINDS,
        "whole": steps["whole"],
        "source": found["source"],
        "findings": [
            {"line": finding["line"], "kind": finding["kind"], "sentence": finding["sentence"]}
            for finding in found["findings"]
        ],
        "tiled": tiled,
        "wrong": (found.get("first_wrong") or {}).get("tile"),
    }
    if tiled:
        drawn = experiment.changed(block_q=found["block_q"], block_kv=found["block_kv"])
        header |= {"head": found["head"], "heads": found["heads"], "drawn": drawn_sizes(drawn)}
        header["marks"] = {name: found[f"{name}_tiles"] for name in MARKS}
        arrays |= bounds_of(launch(drawn).schedule) | _columns("flash2", found["flash2_steps"])
        flash2 = {"name": "FlashAttention-2", "tensors": [each.name for each in NAMED], "programs": []}
        runs.append(flash2)
    return pack({**header, "runs": runs}, arrays)


def _columns(run: str, rows: list[list[int]]) -> dict[str, np.ndarray]:
    """[steps] int32 of each of COLUMNS."""
    table = np.array(rows, np.int32).reshape(-1, len(COLUMNS))
    return {f"{run}.{name}": table[:, column].copy() for column, name in enumerate(COLUMNS)}
