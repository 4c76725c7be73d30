"""What the player draws, packed into one block of bytes: a JSON header and little-endian arrays.

Layout: header length (uint32), the header (UTF-8 JSON, padded with spaces), then the arrays, each on an
8-byte boundary. The header's `arrays` lists name, dtype, offset from the header's end, and length of each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from engine.algorithms import ALGORITHMS, compared, flash2, offered, standard
from engine.experiment import Experiment
from engine.model.drawable import drawable
from engine.model.footprint import footprint, memory_bytes
from engine.model.launch import Launch, launch
from engine.model.seconds import step_seconds
from engine.problem.bounds import blocks, document_edges
from engine.problem.hardware import GB
from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Tensor
from engine.trace.rows import row_statistics

NO_BLOCK = 255
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
    if experiment.algorithm not in offered():
        experiment = experiment.changed(algorithm=flash2.ALGORITHM.key)
    drawn, record = drawable(experiment), experiment.record
    runs, columns = _runs(drawn if record.chooses_tiling else drawn.changed(algorithm=flash2.ALGORITHM.key))
    # unfused attention rounds S and reduces rows whole, flash3 goes backwards: other m and l
    rows = record.key if record.chooses_tiling or record.unfused else flash2.ALGORITHM.key
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
    }
    return pack(header, {**columns, **_statistics(drawn.changed(**alone))})


def pack(header: Mapping, arrays: Mapping[str, np.ndarray]) -> bytes:
    """One block of bytes out of a JSON-able header and one-dimensional arrays."""
    listing, parts, offset = [], [], 0
    for name, values in arrays.items():
        little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        padded = -little.nbytes % 8
        parts += [little.tobytes(), b"\0" * padded]
        listing.append([name, values.dtype.name, offset, len(values)])
        offset += little.nbytes + padded
    text = json.dumps({**header, "arrays": listing}, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


def begun(payload: bytes, *, race: bool = False, share: float = 0.0) -> bytes:
    """The same payload, shown first where a share of its run, or of its race, is done."""
    size = int.from_bytes(payload[:4], "little")
    header = {**json.loads(payload[4 : 4 + size]), "begin": {"race": race, "share": share}}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return b"".join([len(text).to_bytes(4, "little"), text, payload[4 + size :]])


def sizes(experiment: Experiment) -> dict:
    """What the picture says of a problem and its tiling."""
    problem, tiling = experiment.problem, experiment.tiling
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


def _misfits(experiment: Experiment) -> dict[str, str]:
    """Why an algorithm cannot run on the chosen GPU at all, for those that cannot."""
    names = _side_by_side(experiment)
    sentences = {
        name: _misfit(experiment.changed(algorithm=name), _on_one_grid(experiment, name)) for name in names
    }
    return {name: sentence for name, sentence in sentences.items() if sentence}


def misfit(experiment: Experiment) -> str:
    """Why an experiment cannot run on its GPU at all; nothing where it can."""
    return _misfit(experiment, launch(experiment))


def _misfit(experiment: Experiment, run: Launch) -> str:
    gpu, memory, on_chip = experiment.gpu, memory_bytes(experiment), footprint(run)
    if memory > gpu.memory_bytes:
        need, has = -(-memory // GB), gpu.memory_bytes // GB  # not what it has, however little is missing
        return f"Does not fit: needs {need:,} GB of memory, {gpu.with_article} has {has:,} GB."
    return "" if on_chip.fits else on_chip.sentence


def _side_by_side(experiment: Experiment) -> tuple[str, ...]:
    """The algorithms that are drawn on one grid of tiles: with flash3 that of its own blocks."""
    own = standard.ALGORITHM.key, flash2.ALGORITHM.key, experiment.algorithm
    return own if experiment.record.chooses_tiling else compared()


def _on_one_grid(experiment: Experiment, name: str) -> Launch:
    """An algorithm on the tiles of the experiment's."""
    return Launch.of(ALGORITHMS[name], experiment.problem, experiment.tiling, experiment.gpu)


@lru_cache(maxsize=16)
def _runs(experiment: Experiment) -> tuple[dict, dict[str, np.ndarray]]:
    """The steps of every algorithm on one problem and tiling, and the bounds of its mask."""
    runs, arrays = {}, {}
    for name in _side_by_side(experiment):
        run = _on_one_grid(experiment, name)
        runs[name], columns = run_of(run)
        arrays |= {f"{name}.{column}": values for column, values in columns.items()}
    return runs, arrays | bounds_of(run.schedule)


def bounds_of(schedule: Schedule) -> dict[str, np.ndarray]:
    """[query blocks] each: the key blocks that the mask lets them visit, and those it leaves whole."""
    names = ("first", "stop", "full_first", "full_stop")
    return {name: getattr(schedule.bounds, name).astype(np.uint16) for name in names}


def run_of(run: Launch) -> tuple[dict, dict[str, np.ndarray]]:
    """One algorithm's steps; those that are alike in all but their blocks share a row of `kinds`."""
    schedule, columns = run.schedule, run.schedule.columns
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
    seconds = step_seconds(run)[example].tolist()
    steps = {
        "phases": [
            {
                "name": phase.name,
                "outer": phase.outer,
                "reverse": phase.reverse,
                "parts": [[part.label, int(part.tensor), part.bytes] for part in run.parts[phase.name]],
            }
            for phase in schedule.phases
        ],
        "kinds": [[*row, time] for row, time in zip(table, seconds, strict=True)],
    }
    query, key = (
        np.where(c < 0, NO_BLOCK, c).astype(np.uint8) for c in (columns.query_block, columns.key_block)
    )
    return steps, {"kind": kind, "query": query, "key": key}


@lru_cache(maxsize=16)
def _statistics(experiment: Experiment) -> dict[str, np.ndarray]:
    """m and l of some rows of every query block, as many as the budgets allow; and every tile's share."""
    problem, rows = experiment.problem, sampled_rows(experiment)
    q, k = _inputs(problem)
    statistics = row_statistics(experiment, q, k, rows)
    return {
        "rows": rows.astype(np.uint32),
        "m": statistics.m.astype(np.float32).ravel(),
        "l": statistics.l.astype(np.float32).ravel(),
        "share": tile_share(rows, statistics.weight, experiment.tiling.block_q),
    }


def sampled_rows(experiment: Experiment) -> np.ndarray:
    """Rows of every query block, as many as the budgets allow, in order."""
    problem, tiling = experiment.problem, experiment.tiling
    query_blocks, key_blocks = blocks(problem.seq_q, tiling.block_q), blocks(problem.seq_kv, tiling.block_kv)
    most = min(SCORE_BUDGET // problem.seq_kv, VALUE_BUDGET // key_blocks)
    each = max(1, min(tiling.block_q, most // query_blocks))
    within = (np.arange(each) * tiling.block_q + tiling.block_q // 2) // each
    rows = (np.arange(query_blocks)[:, None] * tiling.block_q + within).ravel()
    return np.unique(np.minimum(rows, problem.seq_q - 1))


@lru_cache(maxsize=8)
def _inputs(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """q [seq_q, d] and k [seq_kv, d] of one head, the same that the engine runs on."""
    q, k, _ = make_inputs(problem)
    return q[0], k[0]


def tile_share(rows: np.ndarray, weight: np.ndarray, block_q: int) -> np.ndarray:
    """[query blocks * key blocks] float32: mean share of the softmax mass of a tile over its sampled rows."""
    first = np.flatnonzero(np.diff(rows // block_q, prepend=-1))
    counts = np.diff(first, append=len(rows))
    return (np.add.reduceat(weight, first, axis=0) / counts[:, None]).astype(np.float32).ravel()
