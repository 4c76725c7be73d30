"""Inputs: drawn ones are the same everywhere; heads of a file are read within limits; heads of models."""

import hashlib
import json
import pickle
import zipfile
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment, ExperimentError
from engine.problem.dtype import round_to
from engine.problem.heads import Heads, HeadsError, keep, kept, read
from engine.problem.inputs import fits, make_inputs, make_output_gradient, tokens_of
from engine.studies.drawable import drawable
from engine.trace.execute import execute
from engine.trace.rows import row_statistics
from tests.engine.strategies import experiments, one_head, softmax

ONE = np.ones((2, 4, 8), np.float32)


def test_inputs_of_a_seed_are_these_bits():
    problem = Experiment.of(seq=64, heads=1, head_dim=16).problem
    digest = hashlib.sha256(b"".join(array.tobytes() for array in make_inputs(problem, 0))).hexdigest()
    assert digest[:16] == "3c044903d19cc3bb"
    again = make_inputs(problem, 1)
    assert not np.array_equal(again[0], make_inputs(problem, 0)[0])


def test_inputs_have_their_shapes_and_heads():
    problem = Experiment.of(seq=5, seq_kv=7, head_dim=3).problem
    q, k, v = make_inputs(problem, heads=2)
    assert (q.shape, k.shape, v.shape) == ((2, 5, 3), (2, 7, 3), (2, 7, 3))
    assert {array.dtype for array in (q, k, v)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_inputs_lie_in_their_dtype(dtype):
    """And the gradient of the output, which repeats and is none of them; infinities and NaN survive."""
    problem = Experiment.of(seq=64, dtype=dtype).problem
    d_out = make_output_gradient(problem, 5, heads=2)
    for array in (*make_inputs(problem), d_out):
        np.testing.assert_array_equal(round_to(array, dtype), array)
    np.testing.assert_array_equal(d_out, make_output_gradient(problem, 5, heads=2))
    assert not np.array_equal(d_out[0], make_inputs(problem, 5)[0][0])
    kept = round_to(np.array([np.inf, -np.inf, np.nan], np.float32), dtype)
    np.testing.assert_array_equal(kept, [np.inf, -np.inf, np.nan])
    assert round_to(np.float32(7e4), "float16") == np.inf


def test_most_running_maxima_rise_several_times():
    experiment = Experiment.of(seq=1024, heads=1)
    q, k, _ = (array[0] for array in make_inputs(experiment.problem))
    rises = (np.diff(row_statistics(experiment, q, k, np.arange(1024)).m, axis=1) > 0).sum(1)
    assert np.median(rises) >= 3


@given(st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda value: abs(value) < 3e38))
def test_bfloat16_is_the_nearest_and_ties_go_to_the_even(value):
    rounded = float(round_to(np.float32(value), "bfloat16"))
    bits = int(np.float32(value).view(np.uint32))
    below, above = (float(np.uint32(part << 16).view(np.float32)) for part in (bits >> 16, (bits >> 16) + 1))
    distance = {below: abs(value - below), above: abs(above - value)}
    assert distance[rounded] == min(distance.values())
    if distance[below] == distance[above]:
        assert int(np.float32(rounded).view(np.uint32)) >> 16 & 1 == 0


@given(experiments(), st.integers(1, 8))
def test_what_is_drawn_has_at_most_so_many_tiles_and_keeps_its_blocks(experiment, most):
    small = drawable(experiment, most)
    problem, tiling = small.problem, small.tiling
    assert problem.seq_q <= most * tiling.block_q
    assert problem.seq_kv <= most * tiling.block_kv
    assert tiling == experiment.tiling
    before = experiment.problem
    if before.seq_q <= most * tiling.block_q and before.seq_kv <= most * tiling.block_kv:
        assert small is experiment
    else:
        factor = max(before.seq_q / tiling.block_q, before.seq_kv / tiling.block_kv) / most
        for length, longer in ((problem.seq_q, before.seq_q), (problem.seq_kv, before.seq_kv)):
            assert length == pytest.approx(max(1, longer / factor), abs=1)
        assert (problem.mask.window is None) == (before.mask.window is None)


def heads(queries: int = 40, keys: int = 40, **more) -> Heads:
    drawn = np.random.default_rng(3)
    shapes = {"q": (4, queries, 16), "k": (2, keys, 16), "v": (2, keys, 8)}
    return Heads.of(**{name: drawn.standard_normal(shape) for name, shape in shapes.items()} | more)


def safetensors(said: dict, **arrays: np.ndarray) -> bytes:
    header, body = {"__metadata__": said}, b""
    for name, array in arrays.items():
        kind = {"float32": "F32", "uint16": "BF16"}[array.dtype.name]
        ends = [len(body), len(body) + array.nbytes]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": ends}
        body += array.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def test_both_kinds_of_files_hold_the_same_heads():
    words = ["né", "日本", "<s>", *"abcdefghij" * 3, *"0123456"]
    one = heads(tokens=words, scale=0.3)
    halves = {name: (getattr(one, name).view(np.uint32) >> 16).astype(np.uint16) for name in "qkv"}
    other = read(safetensors({"tokens": json.dumps(words), "scale": "0.3"}, **halves))
    again = read(one.packed())
    assert again.tokens == other.tokens == tuple(words)
    assert (again.scale, again.group) == (other.scale, other.group) == (0.3, 2)
    for name in "qkv":
        np.testing.assert_array_equal(getattr(again, name), getattr(one, name))
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=2**-7)


def npz(**arrays) -> bytes:
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def promised(shape: str) -> bytes:
    """An .npz whose header promises more than it holds."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    part, file = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode(), BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("q.npy", part + b"\0" * 64)
    return file.getvalue()


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (b"", "neither an .npz nor a .safetensors"),
        (pickle.dumps({"q": 1}), "neither an .npz nor a .safetensors"),
        (b"PK\x03\x04", "no .npz that can be read"),
        (npz(q=np.array([print]), k=ONE, v=ONE), "does not hold as numbers"),
        (promised("(4000, 1000, 1000)"), "does not hold as numbers"),
        (npz(q=ONE, k=ONE), "The file has no v; it must have q, k and v"),
        (npz(q=ONE[0], k=ONE, v=ONE), "it must be numbers of three axes"),
        (npz(q=np.full_like(ONE, np.nan), k=ONE, v=ONE), "q holds NaN or infinity"),
        (npz(q=ONE, k=ONE[..., :4], v=ONE), "k has head dim 4; it must be q's, 8"),
        (npz(q=ONE, k=ONE, v=ONE[:, :2]), "its heads and tokens must be k's"),
        (npz(q=np.ones((3, 4, 8)), k=ONE, v=ONE), "k has 2 heads; it must be a divisor of q's 3"),
        (npz(q=np.ones((1, 20000, 1)), k=np.ones((1, 20000, 1)), v=np.ones((1, 20000, 1))), "at most 16,384"),
        (npz(q=ONE, k=ONE, v=ONE, tokens=np.array(["a"])), "tokens has 1 words; it must have one for each"),
        (npz(q=ONE, k=ONE, v=ONE, scale=-1.0), "scale is -1.0; it must be a positive number"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_sentence(file, said):
    with pytest.raises(HeadsError) as error:
        read(file)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_scenario_that_names_heads_multiplies_them_as_dense_float64_does():
    one = heads(scale=0.4)
    experiment = Experiment.of(inputs=one, dtype="float32", block_q=16, block_kv=16, causal=True)
    assert {name: experiment.flat()[name] for name in one.values()} == one.values()
    q, k, v = one_head(experiment)
    scores = np.where(np.tri(40), one.q[0].astype(float) @ one.k[0].T * 0.4, -np.inf)
    np.testing.assert_allclose(execute(experiment, q, k, v).out, softmax(scores) @ one.v[0], atol=1e-5)


def test_the_head_that_is_named_comes_first_with_its_own_keys():
    key = keep(heads())
    problem = Experiment.of(inputs=f"{key}:3", **heads().values()).problem
    q, k, _ = make_inputs(problem, heads=2)
    np.testing.assert_allclose(q, heads().q[[3, 0]], atol=2e-3)
    np.testing.assert_allclose(k, heads().k[[1, 0]], atol=2e-3)


def test_fewer_tokens_are_the_first_and_of_a_cache_the_last():
    words = tuple(map(str, range(40)))
    whole = Experiment.of(inputs=heads(tokens=words)).changed(seq=10, seq_kv=10)
    assert tokens_of(whole.problem) == words[:10]
    cached = Experiment.of(inputs=heads(1, tokens=words)).changed(seq_kv=10)
    assert tokens_of(cached.problem) == words[-10:]
    np.testing.assert_allclose(make_inputs(cached.problem)[1][0], heads(1).k[0, -10:], atol=2e-3)


def test_what_heads_do_not_fit_is_drawn_when_it_is_changed_and_refused_when_it_is_asked():
    experiment = Experiment.of(inputs=heads())
    assert fits(experiment.problem)
    assert experiment.changed(head_dim=32).problem.inputs == "drawn"
    with pytest.raises(ExperimentError, match="it must be drawn, as these heads have other sizes"):
        Experiment.of(inputs=heads(), seq=41)
    for name in ("0123456789ab", "../../etc", "0123456789ab:99999", "drawn:1"):
        assert kept(name) is None
        with pytest.raises(ExperimentError, match="it must be drawn, a layer, a head and a text"):
            Experiment.of(inputs=name)


def test_a_models_heads_are_taken_however_it_calls_attention(tmp_path):
    torch = pytest.importorskip("torch")
    from engine.capture import capture

    def layer():
        q, k, v = (torch.randn(1, heads, 12, 8) for heads in (4, 2, 2))
        k, v = (each.repeat_interleave(2, 1) for each in (k, v))
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return q, k

    with capture(layer=1, out=tmp_path / "heads.npz", tokens=8) as found:
        layer()
        q, k = layer()
    taken = read(tmp_path / "heads.npz")
    np.testing.assert_array_equal(taken.q, q[0, :, -8:])
    np.testing.assert_array_equal(taken.k, k[0, ::2, -8:])
    assert (taken.group, found[0].scale) == (2, 8**-0.5)
    with pytest.raises(HeadsError, match="layer is 5; it must be below the 1 calls"), capture(layer=5):
        layer()


def test_calls_of_this_projects_own_functions_are_taken_too():
    torch = pytest.importorskip("torch")
    kernels = pytest.importorskip("kernels")
    import kernels.flash_attn as library
    from engine.capture import capture

    q, k, v = (torch.randn(1, 16, 2, 16) for _ in range(3))
    with capture() as found:
        library.flash_attn_func(q, k, v)
    np.testing.assert_array_equal(found[0].q, q[0].transpose(0, 1))
    with capture() as found:
        kernels.attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), scale=0.5)
    assert found[0].scale == 0.5
