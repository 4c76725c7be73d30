"""The project's own kernels, watched: bytes and visits are the schedule's; and the steps of a run."""

from pathlib import Path

import pytest
import torch

import kernels
from engine import Experiment, simulate
from engine.measuring.agreement import MASK, NAMES, beside, report
from engine.problem.bounds import key_bounds
from engine.schedule.step import Tensor
from engine.watch.interpreter import reporting
from engine.watch.memory import Memory
from engine.watch.user_file import report as report_of
from engine.watch.watch import KINDS, Watch
from tests.kernels.attention_cases import Shape, in_turn, random_qkv
from tests.kernels.watched_kernels import PLAIN

pytestmark = pytest.mark.skipif(not kernels.interpreted(), reason="watched in Triton's interpreter")
FILE = Path(kernels.__file__).with_name("dense.py")
RAGGED = Shape("ragged", 2, 2, 21, 37, 24, 16, 16)
GROUPED = Shape("grouped", 4, 2, 20, 40, 16, 16, 32)
CASES = [
    (RAGGED, {"causal": True}, "bfloat16"),
    (GROUPED, {"causal": True, "window": 9}, "float16"),
    (RAGGED, {"window": (9, 5)}, "float16"),
    (GROUPED, {"documents": [7, 0, 1, 32], "causal": True}, "bfloat16"),
]


def watch(shape: Shape, dtype: str, prepare) -> Watch:
    """What is called of what `prepare(q, k, v)` gives, watched."""
    q, k, v = random_qkv(shape, getattr(torch, dtype), "cpu")
    known = dict(zip("QKV", (tensor.double().numpy() for tensor in (q, k, v)), strict=True))
    seen = Watch(Memory(known, shape.batch * shape.heads), shape.heads // shape.kv_heads)
    run = prepare(q, k, v)
    with reporting(seen):
        run()
    return seen


def attention(mask: dict, **options):
    """What prepares a call of the real kernels."""
    return lambda q, k, v: lambda: kernels.attention(q, k, v, **mask, **options)


def experiment(shape: Shape, mask: dict, dtype: str, algorithm: str, **more) -> Experiment:
    return Experiment.of(
        algorithm=algorithm, batch=shape.batch, heads=shape.heads, kv_heads=shape.kv_heads, seq=shape.seq_q,
        seq_kv=shape.seq_kv, head_dim=shape.head_dim, dtype=dtype, **shape.blocks, **mask, **more,
    )  # fmt: skip


def moved(seen: Watch, model) -> tuple[dict, dict]:
    """Bytes by tensor that were watched beyond those of the schedule, read and written, by tensor."""
    less = []
    for watched, counted in zip(seen.moved, (model.requested.read, model.requested.written), strict=True):
        found = dict.fromkeys(counted, 0)
        for name, amount in watched.items():
            if name not in MASK:
                found[NAMES[name]] += amount
        less.append(
            {tensor: found[tensor] - counted[tensor] for tensor in found if found[tensor] != counted[tensor]}
        )
    return tuple(less)


OF_CASES = [*in_turn(["standard", "flash1", "flash2"], CASES, by=2), ("split_kv", CASES[1])]


@pytest.mark.parametrize(("algorithm", "case"), OF_CASES)
def test_forward(algorithm, case):
    shape, mask, dtype = case
    splits = {"splits": 2} if algorithm == "split_kv" else {}
    seen = watch(shape, dtype, attention(mask, algorithm=algorithm, **splits, **shape.blocks))
    asked = experiment(shape, mask, dtype, algorithm, **splits)
    # unfused attention keeps no lse: the kernel writes it for whoever asks, 4 bytes per row
    of_lse = {Tensor.LSE: 4 * shape.heads * shape.seq_q} if algorithm == "standard" else {}
    assert moved(seen, simulate(asked).traffic) == ({}, of_lse)
    bounds, whole = key_bounds(asked.problem, asked.tiling), algorithm == "standard"
    tiles = [
        (head, i, j)
        for head in range(shape.heads)
        for i in range(len(bounds.first))
        for j in (
            range(-(-shape.seq_kv // shape.block_kv)) if whole else range(bounds.first[i], bounds.stop[i])
        )
    ]
    visits = [(v.q.head, v.q.low // shape.block_q, v.k.low // shape.block_kv) for v in seen.visits]
    if splits:  # a tile has rows of heads that share keys
        assert {head for head, *_ in visits} == set(range(shape.heads))
    else:
        assert sorted(visits) == tiles
    assert seen.findings == []


@pytest.mark.parametrize(("shape", "mask", "dtype"), CASES[::3])
def test_backward(shape, mask, dtype):
    """Rows that fill the last block of delta and lse are written and read, and not in the schedule."""

    def backward(q, k, v):
        for tensor in (q, k, v):
            tensor.requires_grad_()
        out = kernels.attention(q, k, v, algorithm="flash2", **mask, **shape.blocks)
        return lambda: out.backward(torch.ones_like(out))

    seen = watch(shape, dtype, backward)
    asked = experiment(shape, mask, dtype, "backward")
    read, written = moved(seen, simulate(asked).traffic)
    ragged = -shape.seq_q % shape.block_q
    bounds = key_bounds(asked.problem, asked.tiling)
    last = int(bounds.stop[-1] - bounds.first[-1])  # key blocks that load the ragged block of queries
    padded = 4 * ragged * shape.heads
    expected = {Tensor.DELTA: padded * (last + 1), Tensor.LSE_LOG2: padded * (last + 1)} if ragged else {}
    assert read == expected
    assert written == ({Tensor.DELTA: padded, Tensor.LSE_LOG2: padded} if ragged else {})
    assert seen.findings == []


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2"])
def test_every_tile_brings_the_bytes_that_the_schedule_counts(algorithm):
    """As the Agreement page asks; by hand: K and V of a tile's keys, and Q with the first tile of a row."""
    asked = Experiment.of(
        algorithm=algorithm, seq=21, seq_kv=37, heads=1, head_dim=24, block_q=16, block_kv=16, causal=True
    )
    found = report(FILE, asked)
    counted = beside(asked, found)
    assert counted.equal
    assert counted.unasked == (4 * 21 if algorithm == "standard" else 0)
    row = 24 * 2
    if algorithm == "flash2":
        assert counted.tiles == {
            (i, j): 2 * (row * (2 * keys + (queries if j == 0 else 0)),)
            for i, queries in enumerate((16, 5))
            for j, keys in enumerate((16, 16, 5)[: 2 + i])
        }
    found["read_bytes"]["K"] += row
    assert not beside(asked, found).equal
    found["read_bytes"]["K"] -= row
    load = next(step for step in found["steps"]["rows"] if step[0] == 0)
    load[-1] -= row
    assert not beside(asked, found).equal


def test_tiles_of_documents_and_of_windows_to_both_sides_bring_theirs():
    asked = Experiment.of(
        algorithm="flash2", seq=37, heads=1, head_dim=24, block_q=16, block_kv=16,
        documents="20:0:17", window="9:5",
    )  # fmt: skip
    assert beside(asked, report(FILE, asked)).equal


SCENARIO = {"seq": 40, "heads": 2, "head_dim": 16, "block_q": 16, "block_kv": 16, "causal": True}
ROW = 16 * 2  # bytes


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Hidden tiles are visited in it, and the first one twice."""
    file = tmp_path_factory.mktemp("own") / "mine.py"
    text = PLAIN.replace("(block + 1) * BQ", "(block + 2) * BQ").replace(
        "    for j in range(0, stop):\n",
        "    for step in range(0, stop + 1):\n        j = tl.maximum(step - 1, 0)\n",
    )
    file.write_text(text)
    flat = Experiment.of(**SCENARIO).flat()
    told = {"file": str(file), "source": text.splitlines(), "experiment": flat}
    return {**report_of(file, Experiment.of(**SCENARIO)), **told}


def rows(found, kind):
    steps = found["steps"]
    names = ("kind", "tensor", "line", "program", "query", "key", "bytes")
    told = [dict(zip(names, row, strict=True)) for row in steps["rows"]]
    return [{**each, "tensor": steps["tensors"][each["tensor"]]} for each in told
            if KINDS[each["kind"]] == kind]  # fmt: skip


def test_steps_are_of_the_head_shown_and_name_their_lines(found):
    visits = rows(found, "visit")
    assert [[each["query"], each["key"]] for each in visits] == found["visits"]
    assert [list(tile) for tile in found["visits"]] == [
        [i, j] for i in range(3) for j in (0, *range(min(i + 2, 3)))
    ]
    for kind, word in (("visit", "tl.dot(q, k.T)"), ("meet", "tl.dot(p.to"), ("load", "tl.load(")):
        assert {word in found["source"][each["line"] - 1] for each in rows(found, kind)} == {True}
    loads = rows(found, "load")
    assert [(each["query"], each["bytes"]) for each in loads if each["tensor"] == "Q"] == [
        (0, 16 * ROW), (1, 16 * ROW), (2, 8 * ROW)
    ]  # fmt: skip
    keys = (16, 16, 8)
    assert [each["bytes"] for each in loads if each["tensor"] == "K"] == [
        ROW * keys[j] for _, j in found["visits"]
    ]
    assert found["steps"]["whole"]


def test_programs_stand_beside_flash2s_query_block(found):
    by = {(each["head"], each["query_block"]): each for each in found["by_program"]}
    assert by.keys() == {(head, block) for head in (0, 1) for block in (0, 1, 2)}
    first = by[0, 0]
    assert first["flash2"] == {"Q": [512, 0], "K": [512, 0], "V": [512, 0], "O": [0, 512]}
    assert (first["flash2_bytes"], first["bytes"]) == (4 * 512, 2 * 512 + 2 * 3 * 512 + 16 * 4)
    assert sum(each["bytes"] for each in by.values()) == sum(
        amount for way in ("read", "written") for amount in found[f"{way}_bytes"].values()
    )


def test_the_picture_is_packed_with_what_is_marked(found):
    from app.watched import build  # needs Streamlit, which a machine for kernels alone may lack

    packed = build(found)
    size = int.from_bytes(packed[:4], "little")
    header = packed[4 : 4 + size].decode()
    assert '"extra":[[0,1],[1,2]]' in header
    assert '"repeated":[[0,0],[1,0],[2,0]]' in header
    assert '"block_q":16' in header
    assert found["findings"][0]["sentence"] in header
