"""What the player draws of a backward pass."""

from functools import lru_cache

import numpy as np

from app.canvas.pack import pack
from app.player.payload import SCORE_BUDGET, VALUE_BUDGET, bounds_of, header_of, run_of, title
from engine.algorithms import standard
from engine.experiment import Experiment
from engine.model.launch import launch
from engine.model.simulation import simulate
from engine.problem.inputs import make_inputs, make_output_gradient
from engine.problem.problem import Problem
from engine.studies.drawable import drawable
from engine.studies.gains import standard_backward_bytes
from engine.trace.rows import gradient_rows, sampled_rows, tile_share


@lru_cache(maxsize=64)
def build(experiment: Experiment) -> bytes:
    """The payload of a scenario's backward pass: one run, one head; larger problems by their sibling."""
    asked = experiment.changed(algorithm="backward")
    drawn = drawable(asked)
    schedule = launch(drawn).schedule
    run, columns = run_of(simulate(drawn))
    stored = standard_backward_bytes(drawn)
    header = {
        **header_of(asked, drawn, ["backward"]),
        "group": asked.problem.group,
        "runs": {"backward": {**run, "title": "the backward pass"}},
        # each of its kernels must move its inputs and outputs once, across HBM too
        "against": {"title": title(standard.ALGORITHM), "total": stored, "crossing": stored, "least": True},
    }
    arrays = {f"backward.{name}": values for name, values in columns.items()}
    return pack(header, arrays | bounds_of(schedule) | _rows(drawn))


@lru_cache(maxsize=2)
def _numbers(problem: Problem) -> tuple[np.ndarray, ...]:
    """Q, K, V and dO of the first head, which moved blocks leave as they are."""
    return *(array[0] for array in make_inputs(problem)), make_output_gradient(problem)[0]


@lru_cache(maxsize=16)
def _rows(experiment: Experiment) -> dict[str, np.ndarray]:
    """lse and delta of sampled rows, and the sums of P and dS in each of their tiles."""
    rows = sampled_rows(experiment, SCORE_BUDGET, VALUE_BUDGET)
    followed = gradient_rows(experiment, *_numbers(experiment.problem), rows)
    return {
        "rows": rows.astype(np.uint32),
        "lse": followed.lse,
        "delta": followed.delta,
        "weight": followed.weight.ravel(),
        "score_gradient": followed.score_gradient.ravel(),
        "share": tile_share(rows, followed.weight, experiment.tiling.block_q).astype(np.float32).ravel(),
    }
