"""What the player draws of a forward pass: the steps of some algorithms, and how single rows fare."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache

import numpy as np

from app.canvas.pack import pack, with_header
from app.figures.shared_tables import steps_tables, tensor_name
from engine.algorithms import ALGORITHMS, Algorithm, compared, flash2, standard
from engine.experiment import Experiment
from engine.model.footprint import IN_REGISTERS, misfit
from engine.model.launch import Launch, launch, schedule_of
from engine.model.simulation import Simulation, simulate
from engine.problem.bounds import outline
from engine.problem.dtype import dtype_named
from engine.problem.hardware import Gpu
from engine.problem.inputs import make_inputs, tokens_of, written
from engine.problem.problem import Problem
from engine.problem.terms import SINK
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Tensor
from engine.schedule.traits import traits
from engine.studies.calibrated import memories
from engine.studies.drawable import drawable
from engine.studies.sampled_calls import crossings, step_seconds
from engine.trace.rows import FLAWS, errors, row_statistics, sampled_rows, tile_share

FLASH2 = flash2.ALGORITHM.key
NO_BLOCK = 255
SCORE_BUDGET = 2**19  # scores computed for the statistics of the sampled rows: a few milliseconds
VALUE_BUDGET = 2**15  # numbers sent for each statistic
MOST_WORDS = 48  # tokens that are written beside the tiles
MOST_PIECES = 1024  # of the mask's edges that are drawn inside tiles


@lru_cache(maxsize=64)
def build(experiment: Experiment, agreement: str = "", agrees: bool = True) -> bytes:
    """The payload of one scenario.

    Args:
        experiment: what the sidebar shows; larger problems are drawn scaled down.
        agreement: a sentence shown beside the row's numbers, such as how far kernel and scheduler differ.
        agrees: whether that sentence is good news.
    """
    if not experiment.record.on_one_gpu:
        experiment = experiment.changed(algorithm=FLASH2)
    drawn, record = _drawn(experiment), experiment.record
    packs = _packs(experiment)
    apart = record.chooses_tiling or record.caveat or packs
    runs, columns = _runs(drawn if apart else drawn.changed(algorithm=FLASH2))
    # unfused attention rounds S and reduces rows whole, flash3 goes backwards: other m and l
    rows = record.key if record.chooses_tiling or record.unfused or packs else FLASH2
    heads = drawn.problem.group if packs else 1
    alone = {"batch": 1, "heads": heads, "kv_heads": 1, "algorithm": rows}
    against = _total(drawn, flash2.ALGORITHM if record.unfused else standard.ALGORITHM)
    said = {"agreement": agreement, "agrees": agrees, "against": against}
    header = {**header_of(experiment, drawn, _side_by_side(experiment)), "runs": runs, **said}
    statistics = _statistics(drawn.changed(**alone))
    if not record.unfused and not packs:
        statistics |= {f"wrong.{flaw}": off for flaw, off in _broken(drawn.changed(**alone)).items()}
    return pack(header, {**columns, **statistics})


def header_of(asked: Experiment, drawn: Experiment, names: Sequence[str]) -> dict:
    """What is said of what was asked for, of what is drawn, and of algorithms that cannot run on the GPU."""
    moved = simulate(asked).traffic
    return {
        "algorithm": asked.algorithm,
        "asked": sizes(asked),
        "drawn": drawn_sizes(drawn),
        **({"tokens": words} if (words := words_of(drawn.problem)) else {}),
        "chip": chip(asked.gpu),
        "misfits": _misfits(asked, names),
        "flaws": FLAWS,
        "all": {"requested": moved.requested.total, "crossing": moved.dram.total},  # of all heads, whole
        **steps_tables(),
    }


def _packs(experiment: Experiment) -> bool:
    """Whether a thread block takes all heads that share a key head, which nothing is that takes one head."""
    return schedule_of(experiment).phases[0].shared


def begun(payload: bytes, *, race: bool = False, flaw: str = "") -> bytes:
    """The same payload, shown first at the start of its run, or of its race, maybe with a line left out."""
    return with_header(payload, begin={"race": race, "flaw": flaw})


def sizes(experiment: Experiment) -> dict:
    """What the picture says of a problem and its tiling."""
    problem = schedule_of(experiment).problem
    named = ("seq_q", "seq_kv", "head_dim", "v_dim", "itemsize")
    shape = {name: getattr(problem, name) for name in named} | blocks(experiment)
    stored = dtype_named(problem.stored).bytes
    return {"heads": problem.batch * problem.heads, "stored": stored, **shape}


def drawn_sizes(experiment: Experiment) -> dict:
    """The same of what is drawn, and the edges of what queries see: none where they see all, or too many."""
    pieces = outline(experiment.problem) if experiment.problem.mask.hides else []
    return sizes(experiment) | {"seen": pieces if len(pieces) <= MOST_PIECES else []}


def words_of(problem: Problem) -> list[str]:
    """The text of every key, as it is drawn; none where there are too many to read."""
    tokens = tokens_of(problem)
    return written(tokens) if len(tokens) <= MOST_WORDS else []


def chip(gpu: Gpu) -> dict:
    """What the picture says of a GPU."""
    return {
        "name": gpu.name,
        "capacity": gpu.shared_bytes_block,
        "sms": gpu.sms,
        "memories": {memory.name: asdict(memory) for memory in memories(gpu)},
    }


def _misfits(experiment: Experiment, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Why an algorithm cannot run on the chosen GPU at all, for those that cannot."""
    each = {name: experiment.changed(algorithm=name) for name in names}
    words = {name: misfit(one, launch(one)) for name, one in each.items()}
    return {name: why for name, why in words.items() if why}


def _side_by_side(experiment: Experiment) -> tuple[str, ...]:
    """The algorithms that are shown together, each on the tiles that it runs on everywhere else."""
    own = standard.ALGORITHM.key, FLASH2, experiment.algorithm
    if _packs(experiment):
        return (experiment.algorithm,)
    if experiment.record.chooses_tiling:
        return own
    return tuple(name for name in compared() if name in own or not ALGORITHMS[name].caveat)


def _drawn(experiment: Experiment) -> Experiment:
    """The experiment, or its sibling of which no algorithm has too many tiles to draw."""
    each = [drawable(experiment.changed(algorithm=name)) for name in _side_by_side(experiment)]
    smallest = min(each, key=lambda one: (one.problem.seq_q, one.problem.seq_kv))
    tiles = -(-smallest.problem.seq_kv // smallest.tiling.block_kv)
    return smallest.changed(algorithm=experiment.algorithm, splits=min(smallest.tiling.splits, tiles))


def _total(experiment: Experiment, algorithm: Algorithm) -> dict:
    """What another algorithm moves for the heads that the run takes at a time, to compare it with."""
    moved = simulate(experiment.changed(algorithm=algorithm.key)).traffic
    together = moved.heads // schedule_of(experiment).problem.heads // experiment.problem.batch
    return {
        "name": algorithm.key,
        "title": title(algorithm),
        "total": moved.per_head.requested.total * together,
        "crossing": moved.dram.total * together / moved.heads,
    }


@lru_cache(maxsize=16)
def _runs(experiment: Experiment) -> tuple[dict, dict[str, np.ndarray]]:
    """The steps of every algorithm on one problem, and the bounds of its mask on the experiment's tiles."""
    runs, arrays = {}, bounds_of(launch(experiment).schedule)
    for name in _side_by_side(experiment):
        one = experiment.changed(algorithm=name)
        runs[name], columns = run_of(simulate(one))
        if blocks(one) != blocks(experiment):
            runs[name]["tile"] = blocks(one)
            own = _statistics(one)
            columns |= bounds_of(launch(one).schedule) | {name: own[name] for name in ("rows", "share")}
        arrays |= {f"{name}.{column}": values for column, values in columns.items()}
    return runs, arrays


def blocks(experiment: Experiment) -> dict[str, int]:
    """The rows of its query and key tiles."""
    return {"block_q": experiment.tiling.block_q, "block_kv": experiment.tiling.block_kv}


def bounds_of(schedule: Schedule) -> dict[str, np.ndarray]:
    """[query blocks] each: the key blocks that the mask lets them visit, and those it leaves whole."""
    names = ("first", "stop", "full_first", "full_stop")
    return {name: getattr(schedule.bounds, name).astype(np.uint16) for name in names}


def run_of(simulation: Simulation) -> tuple[dict, dict[str, np.ndarray]]:
    """One algorithm's steps; those that are alike in all but their blocks share a row of `kinds`."""
    run, moved = simulation.launch, simulation.traffic
    schedule, columns = run.schedule, run.schedule.columns
    crossing = crossings(run, moved)
    ragged = 2 * (columns.query_block == len(schedule.query_rows) - 1)
    ragged += columns.key_block == len(schedule.key_rows) - 1
    alike = columns.phase.astype(np.int32) * len(Operation) + columns.operation
    alike = ((alike * len(Tensor) + columns.tensor) * 4 + ragged) * 2 + crossing.first
    _, example, kind = np.unique(alike, return_index=True, return_inverse=True)
    fields = (columns.phase, columns.operation, columns.tensor, columns.read_bytes, columns.written_bytes)
    fields += (step_seconds(run, moved), crossing.read, crossing.written)
    steps = about(run) | {"kinds": list(zip(*(each[example].tolist() for each in fields), strict=True))}
    query, key = (
        np.where(c < 0, NO_BLOCK, c).astype(np.uint8) for c in (columns.query_block, columns.key_block)
    )
    return steps, {"kind": kind.astype(np.uint8), "query": query, "key": key}


def about(run: Launch) -> dict:
    """What a run is like: all that the browser tells algorithms apart by."""
    like, problem = traits(run.schedule), run.problem
    every = {"sink": problem.sinks and SINK, "cap": problem.softcap}
    every |= {"slopes": problem.slopes, "latent": problem.latent}
    terms = {name: value for name, value in every.items() if value}
    return {
        "title": title(run.algorithm),
        "rows": like.rows.value,
        "unfused": run.algorithm.unfused,
        "blocks": max(each.blocks for each in run.kernels),
        "splits": run.schedule.phases[0].programs.splits,
        "visitsHidden": like.visits_hidden,
        "rewrites": like.rewrites,
        "specialised": run.pipeline.specialised,
        "overlapped": run.pipeline.overlapped,
        **({"terms": terms} if terms else {}),
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
                "parts": [
                    [part.label, tensor_name(part.tensor), part.bytes, part.tensor in IN_REGISTERS]
                    for part in run.parts[phase.name]
                ],
            }
            for phase, each in zip(run.schedule.phases, like.phases, strict=True)
        ],
    }


def title(algorithm: Algorithm) -> str:
    """Its name within a sentence: a name with a number as it is, any other a word, which is small."""
    return algorithm.label if any(map(str.isdigit, algorithm.short)) else algorithm.short.lower()


@lru_cache(maxsize=16)
def _statistics(experiment: Experiment) -> dict[str, np.ndarray]:
    """m, l, α and lse of some rows of every query block, as many as the budgets allow; every tile's share."""
    rows = sampled_rows(experiment, SCORE_BUDGET, VALUE_BUDGET)
    q, k, _ = _inputs(schedule_of(experiment).problem)
    found = row_statistics(experiment, q, k, rows)
    share = tile_share(rows, found.weight, experiment.tiling.block_q)
    values = {"m": found.m, "l": found.l, "alpha": found.alpha, "lse": found.lse_so_far, "share": share}
    sent = {name: column.astype(np.float32).ravel() for name, column in values.items()}
    return {"rows": rows.astype(np.uint32), "whole": found.lse.astype(np.float32), **sent}


@lru_cache(maxsize=16)
def _broken(experiment: Experiment) -> dict[str, np.ndarray]:
    """[query blocks * key blocks] by what is left out: how far off O is in a block's middle row."""
    block, last = experiment.tiling.block_q, experiment.problem.seq_q - 1
    rows = np.minimum(np.arange(block // 2, last + 1 + block // 2, block), last)
    return {
        flaw: off.astype(np.float32).ravel()
        for flaw, off in errors(experiment, *_inputs(experiment.problem), rows).items()
    }


@lru_cache(maxsize=8)
def _inputs(problem: Problem) -> list[np.ndarray]:
    """q [seq_q, d], k and v [seq_kv, d] of one head, the same that the engine runs on."""
    return [each[0] for each in make_inputs(problem)]
