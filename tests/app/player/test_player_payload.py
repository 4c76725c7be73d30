"""What the player is sent: it unpacks to the engine's own numbers, and stays small and quick to build."""

import json

import numpy as np
import pytest

from app.canvas.pack import pack, with_header
from app.page import tiles
from app.player import backward, payload
from engine.algorithms import compared, offered
from engine.experiment import Experiment
from engine.measuring.agreement import PAIRS, QUANTITIES, Agreement
from engine.model.launch import launch, schedule_of
from engine.model.simulation import simulate
from engine.problem.inputs import make_inputs
from engine.studies.sampled_calls import step_seconds
from engine.trace.execute import execute
from engine.trace.rows import row_statistics

SCENARIOS = {
    "default": {},
    "ragged, more keys": {"seq": 500, "seq_kv": 777, "block_q": 128},
    "causal window": {"seq": 300, "causal": True, "window": 70, "block_kv": 32},
    "fewer keys, rows that see none": {"seq": 200, "seq_kv": 90, "causal": True},
    "one row": {"seq": 1, "seq_kv": 64},
    "documents": {"seq": 300, "documents": 3, "block_kv": 32},
}


def unpack(block: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Header and arrays, read back by the documented layout alone."""
    size = int.from_bytes(block[:4], "little")
    header = json.loads(block[4 : 4 + size])
    arrays = {
        name: np.frombuffer(block, np.dtype(kind).newbyteorder("<"), length, 4 + size + offset)
        for name, kind, offset, length in header["arrays"]
    }
    return header, arrays


@pytest.fixture(params=SCENARIOS.values(), ids=SCENARIOS.keys())
def scenario(request) -> Experiment:
    return Experiment.of(**request.param)


def test_packing_and_unpacking_returns_header_and_arrays():
    arrays = {"a": np.arange(5, dtype=np.uint8), "b": np.array([1.5, -np.inf], np.float32), "c": np.zeros(0)}
    packed = pack({"name": "é"}, arrays)
    longer = "longer than before"
    for block, name in ((packed, "é"), (with_header(packed, name=longer), longer)):
        header, read = unpack(block)
        assert header["name"] == name
        assert all(np.array_equal(read[name], values) for name, values in arrays.items())
        start = 4 + int.from_bytes(block[:4], "little")
        assert {(start + offset) % 8 for _, _, offset, _ in header["arrays"]} == {0}


@pytest.mark.parametrize("algorithm", [*compared(), "backward"])
def test_the_steps_are_those_of_the_schedule(scenario, algorithm):
    experiment = scenario.changed(algorithm=algorithm)
    header, arrays = unpack((backward if algorithm == "backward" else payload).build(experiment))
    columns = schedule_of(experiment).columns
    table = np.array(header["runs"][algorithm]["kinds"])[arrays[f"{algorithm}.kind"]].T
    sent = ("phase", "operation", "tensor", "read_bytes", "written_bytes")
    for name, values in zip(sent, table, strict=False):
        np.testing.assert_array_equal(values, getattr(columns, name), err_msg=name)
    np.testing.assert_array_equal(table[5], step_seconds(launch(experiment)))
    for name in ("query", "key"):
        block = getattr(columns, f"{name}_block")
        expected = np.where(block < 0, payload.NO_BLOCK, block)
        np.testing.assert_array_equal(arrays[f"{algorithm}.{name}"], expected, err_msg=name)


def test_who_races_follows_from_the_algorithm_that_is_chosen():
    scenario = Experiment.of()
    assert list(unpack(payload.build(scenario))[0]["runs"]) == ["standard", "flash2"]
    runs = unpack(payload.build(scenario.changed(algorithm="flash1")))[0]["runs"]
    assert list(runs) == ["standard", "flash1", "flash2"]
    assert runs["flash1"]["blocks"] == 16  # of its heads: what the lane says of 132 SMs
    _, arrays = unpack(payload.build(scenario.changed(algorithm="standard")))
    assert len(arrays["m"]) == len(arrays["rows"])  # unfused attention has one maximum a row
    header, _ = unpack(payload.build(scenario.changed(algorithm="backward")))
    assert header["algorithm"] == "flash2"  # which stands for one without a picture of tiles


def test_flash3_is_drawn_on_its_own_blocks_beside_others_on_theirs():
    scenario = Experiment.of(algorithm="flash3", seq=1600, causal=True)
    header, arrays = unpack(payload.build(scenario))
    assert (header["drawn"]["block_q"], header["drawn"]["block_kv"]) == (192, 128)
    assert list(header["runs"]) == ["standard", "flash2", "flash3"]
    columns = schedule_of(scenario).columns
    visits = columns.key_block >= 0
    np.testing.assert_array_equal(arrays["flash3.key"][visits], columns.key_block[visits])
    assert "tile" not in header["runs"]["flash3"]
    assert header["runs"]["flash2"]["tile"] == {"block_q": 64, "block_kv": 64}
    assert arrays["flash2.stop"].tolist() == list(range(1, 26))  # of 1,600 keys in 64s, causal
    np.testing.assert_allclose(arrays["flash2.share"].reshape(25, 25).sum(1), 1, rtol=1e-5)
    q, k, _ = make_inputs(scenario.problem)
    expected = row_statistics(scenario, q[0], k[0], arrays["rows"])
    np.testing.assert_allclose(arrays["m"], expected.m.ravel(), rtol=1e-5)
    assert np.nanmax(np.diff(expected.m, axis=1)) <= 0  # the maximum rises towards the first key block


def moved(block: bytes, name: str) -> tuple[float, float]:
    """Bytes of one run's steps as the browser adds them up: requested from L2, and across HBM."""
    header, arrays = unpack(block)
    table = np.array(header["runs"][name]["kinds"])[arrays[f"{name}.kind"]]
    return table[:, 3:5].sum(), table[:, 6:8].sum()


@pytest.mark.parametrize("algorithm", offered())
@pytest.mark.parametrize("values", [{}, {"seq": 700, "causal": True, "kv_heads": 4}], ids=len)
def test_bytes_are_those_of_every_page_whichever_algorithm_is_picked(algorithm, values):
    scenario = Experiment.of(**values, algorithm=algorithm)
    block = payload.build(scenario)
    header, _ = unpack(block)
    for name in header["runs"]:
        traffic = simulate(Experiment.of(**values, algorithm=name)).traffic
        heads = traffic.requested.total / 16, traffic.dram.total / 16
        assert moved(block, name) == pytest.approx(heads, rel=1e-9), name
    requested, crossing = moved(block, algorithm)
    assert header["all"] == pytest.approx({"requested": 16 * requested, "crossing": 16 * crossing})
    against = header["against"]
    assert (against["total"], against["crossing"]) == pytest.approx(moved(block, against["name"]), rel=1e-9)


def test_split_keys_are_played_as_they_run():
    """Four parts of four key tiles; its rows are the heads that share a key head, of which there are two."""
    shape = {"seq": 1, "seq_kv": 1024, "heads": 8, "kv_heads": 2, "causal": True}
    one = Experiment.of(**shape, algorithm="split_kv", block_q=16, splits=4)
    block = payload.build(one)
    header, arrays = unpack(block)
    traffic, unfused = (simulate(one.changed(algorithm=name)).traffic for name in ("split_kv", "standard"))
    assert header["runs"]["split_kv"]["splits"] == 4
    assert moved(block, "split_kv") == pytest.approx((traffic.requested.total / 2, traffic.dram.total / 2))
    assert header["against"]["total"] == pytest.approx(unfused.requested.total / 2)
    alpha = arrays["alpha"].reshape(-1, 16)
    assert (alpha[:, ::4] == 0).all()  # each part begins with nothing
    assert (alpha[:, 1::4] > 0).all()
    q, k, v = (each[0] for each in make_inputs(schedule_of(one).problem))
    trace = execute(one, q, k, v)
    np.testing.assert_allclose(arrays["m"].reshape(-1, 16), trace.m[0].T[:4], rtol=1e-5)
    np.testing.assert_allclose(arrays["l"].reshape(-1, 16), trace.l[0].T[:4], rtol=1e-5)
    np.testing.assert_allclose(arrays["whole"], trace.lse, rtol=1e-5)


def test_the_rows_carry_the_engines_statistics(scenario):
    _, arrays = unpack(payload.build(scenario))
    q, k, _ = make_inputs(scenario.problem)
    expected = row_statistics(scenario, q[0], k[0], arrays["rows"])
    np.testing.assert_allclose(arrays["m"], expected.m.ravel(), rtol=1e-5)
    np.testing.assert_allclose(arrays["l"], expected.l.ravel(), rtol=1e-5)
    np.testing.assert_allclose(arrays["alpha"], expected.alpha.ravel(), rtol=1e-5)
    np.testing.assert_allclose(arrays["lse"], expected.lse_so_far.ravel(), rtol=1e-5)


def test_every_query_block_has_a_row_and_its_shares_add_up_to_one():
    scenario = Experiment.of(seq=500, block_q=128, causal=True)
    _, arrays = unpack(payload.build(scenario))
    assert set(arrays["rows"] // 128) == {0, 1, 2, 3}
    np.testing.assert_allclose(arrays["share"].reshape(4, -1).sum(1), 1, rtol=1e-5)


def test_a_large_problem_is_drawn_smaller_and_says_what_was_asked():
    header, arrays = unpack(payload.build(Experiment.of(seq=2**20, causal=True)))
    assert header["asked"]["seq_kv"] == 2**20
    assert header["drawn"]["seq_kv"] == 4096
    assert len(arrays["stop"]) == 64


@pytest.mark.parametrize("kind", [payload, backward])
def test_the_largest_drawing_stays_below_half_a_megabyte(kind):
    assert len(kind.build(Experiment.of(seq=2**20))) < 500_000


def misfits(**scenario) -> dict[str, list[str]]:
    return unpack(payload.build(Experiment.of(**scenario)))[0]["misfits"]


def test_what_does_not_fit_the_chip_or_the_memory_is_named_with_both_sizes():
    blocks = misfits(block_q=256, block_kv=256, head_dim=256, hardware="a100")
    sizes = ["needs 512 KiB of shared memory", "an A100 allows 163 KiB per block"]
    assert blocks["standard"] == ["Does not fit", *sizes]
    assert set(blocks) == {"standard", "flash2"}
    # S and P of 32 heads, 2 B an element: 2 * 32 * 2**34 * 2 B are 2,199 GB
    memory = misfits(seq=2**17, heads=32, dtype="bfloat16")
    assert memory == {"standard": ["Does not fit", "needs 2,202 GB of memory", "an H200 has 150 GB"]}
    least = misfits(seq=48_302, head_dim=128)  # one token fewer fits
    assert least == {"standard": ["Does not fit", "needs 151 GB of memory", "an H200 has 150 GB"]}
    assert misfits(seq=48_301, head_dim=128) == {}
    assert misfits() == {}


def verdict(largest: float) -> tuple[str, bool]:
    """Of a comparison in which every quantity differs by the same in every tile."""
    tiles_of = {(quantity, pair): np.full((2, 2), largest) for quantity in QUANTITIES for pair in PAIRS}
    tolerance = dict.fromkeys(QUANTITIES, 1e-6)
    return tiles.verdict(Agreement(Experiment.of(), "a device", True, tolerance, tiles_of, "2026-01-01"))


def test_the_verdict_rounds_the_largest_difference_up_and_calls_none_beyond_rounding_agreement():
    words = "m, α, lse of kernel and scheduler differ by at most 3·10⁻⁷, measured here"
    assert verdict(2.1e-7) == (words, True)
    words, agrees = verdict(1e-3)
    assert ("more than rounding" in words, agrees) == (True, False)


def test_documents_are_sent_with_their_edges_unless_too_fine_to_see():
    def pieces(documents):
        header, _ = unpack(payload.build(Experiment.of(seq=2400, documents=documents)))
        return [tuple(piece[:4]) for piece in header["drawn"]["seen"]]

    assert pieces(1) == pieces(1200) == []
    assert {(top, top, 0, top + 800) for top in (0, 800, 1600)} <= set(pieces(3))


def test_few_tokens_are_written_beside_the_tiles():
    few, many = (Experiment.of(inputs=f"text:1.0:{text}") for text in ("It is\na truth", "a truth " * 20))
    header, _ = unpack(payload.build(few))
    assert header["tokens"] == ["(begin)", "It", "is", "␣", "a", "t", "r", "ut", "h"]
    assert "tokens" not in unpack(payload.build(many))[0]
    assert "tokens" not in unpack(payload.build(Experiment.of(seq=40)))[0]
