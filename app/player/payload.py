"""What the player draws of a forward pass: the steps of some algorithms, and how single rows fare."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from app.canvas.pack import pack, with_header
from app.canvas.tables import palettes, steps_tables, tensor_name
from engine.experiment import COMPARED, OFFERED, Experiment
from engine.model.drawable import drawable
from engine.model.footprint import kernel_parts, misfit
from engine.model.launch import schedule_of
from engine.model.pipeline import pipeline_of
from engine.model.seconds import step_seconds
from engine.problem.bounds import document_edges
from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Tensor
from engine.schedule.traits import traits
from engine.trace.rows import row_statistics, sampled_rows, tile_share

NO_BLOCK = 255
TITLES = {
    "standard": "standard",
    "flash1": "FlashAttention-1",
    "flash2": "FlashAttention-2",
    "flash3": "FlashAttention-3",
    "backward": "the backward pass",
}
SCORE_BUDGET = 2**19  # scores computed for the statistics of the sampled rows: a few milliseconds
VALUE_BUDGET = 2**15  # numbers sent for each statistic
MOST_DOCUMENTS = 512  # whose edges are drawn inside tiles


@lru_cache(maxsize=64)
def build(experiment: Experiment, agreement: str = "", agrees: bool = True) -> bytes:
    """The payload of one scenario.

    Args:
        experiment: what the sidebar shows; larger problems are drawn by their scaled-down sibling.
        agreement: a sentence shown beside the row's numbers, such as how far kernel and scheduler differ.
        agrees: whether that sentence is good news.
    """
    if experiment.algorithm not in OFFERED:
        experiment = experiment.changed(algorithm="flash2")
    drawn = drawable(experiment)
    latest = experiment.algorithm == "flash3"
    runs, columns = _runs(drawn if latest else drawn.changed(algorithm="flash2"))
    # unfused attention rounds S and reduces rows whole, flash3 goes backwards: other m and l
    rows = experiment.algorithm if latest or experiment.algorithm == "standard" else "flash2"
    alone = {"batch": 1, "heads": 1, "kv_heads": 1, "algorithm": rows}
    header = {
        "algorithm": experiment.algorithm,
        "agreement": agreement,
        "agrees": agrees,
        "asked": sizes(experiment),
        "drawn": sizes(drawn),
        "chip": {"name": experiment.gpu.name, "capacity": experiment.gpu.shared_bytes_block},
        "misfits": _misfits(experiment),
        "runs": runs,
        "against": _total(drawn, "flash2" if experiment.algorithm == "standard" else "standard"),
        **steps_tables(),
        "palettes": palettes(),
    }
    return pack(header, {**columns, **_statistics(drawn.changed(**alone))})


def begun(payload: bytes, *, race: bool = False, share: float = 0.0) -> bytes:
    """The same payload, shown first where a share of its run, or of its race, is done."""
    return with_header(payload, begin={"race": race, "share": share})


def sizes(experiment: Experiment) -> dict:
    """What the picture says of a problem and its tiling."""
    problem, tiling = experiment.problem, experiment.blocks
    return {
        "heads": problem.batch * problem.heads,
        "seq_q": problem.seq_q,
        "seq_kv": problem.seq_kv,
        "head_dim": problem.head_dim,
        "itemsize": problem.itemsize,
        "causal": not problem.mask.looks_ahead,
        "window": problem.mask.window,
        "documents": _document_edges(problem),
        "block_q": tiling.block_q,
        "block_kv": tiling.block_kv,
    }


def _document_edges(problem: Problem) -> list[int]:
    """The key at which each document starts, and where the last one ends; empty where they are too fine."""
    count = min(problem.mask.documents, problem.seq_kv)
    return document_edges(problem).tolist() if 1 < count <= MOST_DOCUMENTS else []


def _misfits(experiment: Experiment) -> dict[str, tuple[str, ...]]:
    """Why an algorithm cannot run on the chosen GPU at all, for those that cannot."""
    words = {name: misfit(each) for name, each in _alike(experiment).items()}
    return {name: why for name, why in words.items() if why}


def _alike(experiment: Experiment) -> dict[str, Experiment]:
    """The algorithms that are drawn on one grid of tiles: with flash3 that of its own blocks."""
    names = ("standard", "flash2", "flash3") if experiment.algorithm == "flash3" else COMPARED
    alike = {name: experiment.changed(algorithm=name) for name in names}
    return {name: replace(each, shared_blocks=experiment.blocks) for name, each in alike.items()}


def _total(experiment: Experiment, algorithm: str) -> dict:
    """What another algorithm asks of HBM for one head on the same tiles, to compare a run with."""
    columns = schedule_of(_alike(experiment)[algorithm]).columns
    total = int(columns.read_bytes.sum() + columns.written_bytes.sum())
    return {"title": TITLES[algorithm], "total": total}


@lru_cache(maxsize=16)
def _runs(experiment: Experiment) -> tuple[dict, dict[str, np.ndarray]]:
    """The steps of every algorithm on one problem and tiling, and the bounds of its mask."""
    runs, arrays = {}, {}
    for name, each in _alike(experiment).items():
        schedule = schedule_of(each)
        runs[name], columns = run_of(each, schedule)
        arrays |= {f"{name}.{column}": values for column, values in columns.items()}
    return runs, arrays | bounds_of(schedule)


def bounds_of(schedule: Schedule) -> dict[str, np.ndarray]:
    """[query blocks] each: the key blocks that the mask lets them visit, and those it leaves whole."""
    names = ("first", "stop", "full_first", "full_stop")
    return {name: getattr(schedule.bounds, name).astype(np.uint16) for name in names}


def run_of(experiment: Experiment, schedule: Schedule) -> tuple[dict, dict[str, np.ndarray]]:
    """One algorithm's steps; those that are alike in all but their blocks share a row of `kinds`."""
    columns = schedule.columns
    ragged = 2 * (columns.query_block == len(schedule.query_rows) - 1)
    ragged += columns.key_block == len(schedule.key_rows) - 1
    alike = columns.phase.astype(np.int32) * len(Operation) + columns.operation
    alike = (alike * len(Tensor) + columns.tensor) * 4 + ragged
    present = np.unique(alike)
    number = np.zeros(present[-1] + 1, np.uint8)
    number[present] = np.arange(len(present))
    kind = number[alike]
    example = np.zeros(len(present), np.int64)
    example[kind] = np.arange(len(kind))
    fields = (columns.phase, columns.operation, columns.tensor, columns.read_bytes, columns.written_bytes)
    table = np.stack([field[example].astype(np.int64) for field in fields], 1).tolist()
    seconds = step_seconds(experiment, schedule)[example].tolist()
    run = about(experiment, schedule)
    run["kinds"] = [[*row, time] for row, time in zip(table, seconds, strict=True)]
    query, key = (
        np.where(c < 0, NO_BLOCK, c).astype(np.uint8) for c in (columns.query_block, columns.key_block)
    )
    return run, {"kind": kind, "query": query, "key": key}


def about(experiment: Experiment, schedule: Schedule) -> dict:
    """What a run is like: all that the browser tells algorithms apart by."""
    like, pipeline, held = traits(schedule), pipeline_of(experiment.algorithm), kernel_parts(experiment)
    return {
        "title": TITLES.get(experiment.algorithm, experiment.algorithm),
        "rows": like.rows.value,
        "unfused": like.unfused,
        "visitsHidden": like.visits_hidden,
        "rewrites": like.rewrites,
        "specialised": pipeline.specialised,
        "overlapped": pipeline.overlapped,
        "phases": [
            {
                "name": phase.name,
                "outer": phase.outer,
                "reverse": phase.reverse,
                "loads": [tensor_name(tensor) for tensor in each.loads],
                "leaves": each.leaves.value,
                "wholeRows": each.whole_rows,
                "gathers": each.gathers,
                "carries": each.carries,
                "parts": [[part.label, tensor_name(part.tensor), part.bytes] for part in held[phase.name]],
            }
            for phase, each in zip(schedule.phases, like.phases, strict=True)
        ],
    }


@lru_cache(maxsize=16)
def _statistics(experiment: Experiment) -> dict[str, np.ndarray]:
    """m, l, α and lse of some rows of every query block, as many as the budgets allow; every tile's share."""
    rows = sampled_rows(experiment, SCORE_BUDGET, VALUE_BUDGET)
    q, k = _inputs(experiment.problem)
    found = row_statistics(experiment, q, k, rows)
    share = tile_share(rows, found.weight, experiment.blocks.block_q)
    values = {"m": found.m, "l": found.l, "alpha": found.alpha, "lse": found.lse_so_far, "share": share}
    sent = {name: column.astype(np.float32).ravel() for name, column in values.items()}
    return {"rows": rows.astype(np.uint32), **sent}


@lru_cache(maxsize=8)
def _inputs(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """q [seq_q, d] and k [seq_kv, d] of one head, the same that the engine runs on."""
    q, k, _ = make_inputs(problem)
    return q[0], k[0]
