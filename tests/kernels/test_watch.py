"""Kernels watched while Triton's interpreter runs them: what is counted, and what is found to be wrong."""

import math
from pathlib import Path

import pytest

import kernels
from engine import Experiment, simulate
from engine.problem.inputs import make_inputs
from engine.problem.problem import Mask, Problem, Tiling
from engine.watch.process import Limits, run
from engine.watch.user_file import NotServedError, report
from tests.kernels.watched_kernels import BUGS, PLAIN, planted

pytestmark = pytest.mark.skipif(not kernels.interpreted(), reason="watched in Triton's interpreter")
TILING = Tiling(16, 16)


def problem(seq: int, causal: bool = False, heads: int = 1, **more) -> Problem:
    shape = {"batch": 1, "heads": heads, "kv_heads": heads, "seq_q": seq, "seq_kv": seq, "head_dim": 16}
    return Problem(**{**shape, "mask": Mask(causal), **more})


def watched(folder: Path, text: str, asked: Problem, tiling: Tiling = TILING) -> dict:
    file = folder / "kernel.py"
    file.write_text(text)
    return report(file, Experiment(problem=asked, asked=tiling))


@pytest.mark.parametrize(("seq", "causal"), [(32, False), (40, True)])
def test_a_right_kernel_has_no_findings_and_flash2s_bytes(tmp_path, seq, causal):
    found = watched(tmp_path, PLAIN, problem(seq, causal, heads=2))
    assert found["right"]
    assert found["findings"] == []
    asked = Experiment.of(seq=seq, heads=2, head_dim=16, block_q=16, block_kv=16, causal=causal)
    model = simulate(asked).traffic
    for tensor in ("Q", "K", "V", "O"):
        read, written = (getattr(model.requested, way) for way in ("read", "written"))
        assert found["read_bytes"][tensor] == {key.name: amount for key, amount in read.items()}[tensor]
        assert found["written_bytes"][tensor] == {key.name: amount for key, amount in written.items()}[tensor]
    by_hand = [[i, j] for i in range(-(-seq // 16)) for j in range(i + 1 if causal else 2)]
    assert found["visits"] == by_hand
    assert found["extra_tiles"] == found["missing_tiles"] == found["repeated_tiles"] == []
    assert found["tiles_of_all_heads"] == model.tiles_visited
    second = next(each for each in found["by_program"] if each["program"] == [1, 0, 0])
    keys = (min(32, seq) if causal else seq) * 16 * 2  # bytes: two blocks of 16 keys, in 16 bits
    assert second["moved"] == {"Q": [512, 0], "K": [keys, 0], "V": [keys, 0], "O": [0, 512], "lse": [0, 64]}


@pytest.mark.parametrize(
    ("kept", "returned"),
    [
        ("(m + tl.log(l)) * 1.44269504", "out"),  # as FlashAttention-2's tutorial keeps it, for gradients
        ("m", "out"),
        ("m", "(out,)"),
        ("m + tl.log(l)", "out, lse"),
        ("(m + tl.log(l)) * 1.44269504", "out, lse * 0.6931471805599453"),
        ("m", "out, [lse]"),
    ],
)
def test_what_a_kernel_keeps_beside_o_is_its_own_business(tmp_path, kept, returned):
    text = PLAIN.replace("rows, m + tl.log(l)", f"rows, {kept}").replace("return out", f"return {returned}")
    found = watched(tmp_path, text, problem(32))
    assert (found["right"], found["findings"]) == (True, [])


def test_a_maximum_that_is_returned_under_a_name_of_its_own_is_no_lse(tmp_path):
    text = PLAIN.replace("rows, m + tl.log(l)", "rows, m").replace("return out", "return out, lse")
    assert [each["kind"] for each in watched(tmp_path, text, problem(32))["findings"]] == ["wrong_lse"]
    assert watched(tmp_path, text.replace("lse", "M"), problem(32))["findings"] == []


AMISS = {  # tiles, by hand
    "hidden tiles are visited": ("extra_tiles", [[0, 1]]),
    "the diagonal is left out": ("missing_tiles", [[1, 1]]),
    "a tile is visited twice": ("repeated_tiles", [[0, 1], [1, 1]]),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_said(tmp_path, name):
    kinds, causal, heads, seq, _ = BUGS[name]
    found = watched(tmp_path, planted(name), problem(seq, causal, heads))
    assert {finding["kind"] for finding in found["findings"]} == kinds
    listed, tiles = AMISS.get(name, ("visits", found["visits"]))
    assert found[listed] == tiles
    for finding in found["findings"]:
        assert finding["sentence"].endswith(".")
        assert finding["line"]


FLAWED = {  # by bug: of what a loop does otherwise, whether O and l are rescaled, and what scores are times
    "acc is not rescaled": (False, True, 1.0),
    "l is not rescaled": (True, False, 1.0),
    "the scale is forgotten": (True, True, 4.0),
}


@pytest.mark.parametrize("name", FLAWED)
def test_the_first_tile_that_goes_wrong_is_marked_with_what_a_loop_gives(tmp_path, name):
    out_kept, sum_kept, factor = FLAWED[name]
    found = watched(tmp_path, planted(name), problem(32, BUGS[name][1]))
    first, (i, j) = found["first_wrong"], found["first_wrong"]["tile"]
    q, k, v = (each[0].astype(float) for each in make_inputs(problem(32)))

    def after(out_kept: bool, sum_kept: bool, factor: float) -> list[list[float]]:
        """m, alpha, l and the first number of O of the row, after each tile of 16 keys."""
        m, total, out, steps = -math.inf, 0.0, 0.0, []
        for start in (0, 16):
            last = first["row"] if BUGS[name][1] else 31
            keys = range(start, min(start + 16, last + 1))
            if not keys:
                break
            scores = [factor * float(q[first["row"]] @ k[key]) / 4 for key in keys]
            before, m = m, max(m, *scores)
            alpha = math.exp(before - m)
            total, out = total * (alpha if sum_kept else 1), out * (alpha if out_kept else 1)
            total += sum(math.exp(score - m) for score in scores)
            out += sum(math.exp(score - m) * v[key, 0] for score, key in zip(scores, keys, strict=True))
            steps.append([m, alpha if (out_kept and sum_kept) or not start else 1.0, total, out])
        return steps

    must, wrong = after(True, True, 1.0), after(out_kept, sum_kept, factor)
    assert [first["must"], first["found"]] == [pytest.approx(must[j]), pytest.approx(wrong[j])]
    assert all(pytest.approx(each) == other for each, other in zip(must[:j], wrong[:j], strict=True))
    assert i == first["row"] // 16


def test_a_finding_names_the_line_the_program_and_the_tensor(tmp_path):
    text = planted("P meets other rows of V")
    (found,) = watched(tmp_path, text, problem(32))["findings"]
    assert "acc += tl.dot" in text.splitlines()[found["line"] - 1]
    assert (tuple(found["program"]), found["tensor"]) == ((0, 0, 0), "V")
    assert found["sentence"] == (
        "Program (0, 0, 0) multiplies P of key rows 0 to 15 by rows 16 to 31 of V"
        f" in line {found['line']}; they must be the same rows."
    )


def test_a_wrong_stride_is_said_alone_and_a_right_kernel_may_step_over_rows(tmp_path):
    (found,) = watched(tmp_path, planted("K has another stride"), problem(32, heads=2))["findings"]
    assert found["sentence"] == (
        f"Program (0, 0, 0) takes the rows of K in line {found['line']} to be 24 elements apart; they are 16"
        " apart: a stride is wrong."
    )
    every_second = PLAIN.replace(
        "j * BK + tl.arange(0, BK)", "j // 2 * 2 * BK + j % 2 + 2 * tl.arange(0, BK)"
    )
    seen = watched(tmp_path, every_second, problem(64))
    assert seen["right"]
    assert "wrong_stride" not in {finding["kind"] for finding in seen["findings"]}


ASKED = """import torch, triton
assert torch.cuda.is_available() and torch.version.hip is None
DEVICE = triton.runtime.driver.active.get_active_torch_device()
TARGET = triton.runtime.driver.active.get_current_target()
SMS = torch.cuda.get_device_properties(0).multi_processor_count
UTILS = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)
torch.manual_seed(0)
torch.set_default_device("cuda")
own = attention
def attention(q, k, v, scale, block_q, block_kv, causal):
    assert q.is_cuda and k.is_cuda and v.is_cuda and not q.is_cpu
    assert q.device.type == "cuda" and q.device == k.device == DEVICE and q.get_device() == 0
    assert TARGET.backend == "cuda" and TARGET.arch >= 80 and torch.cuda.get_device_capability()[0] >= 8
    assert torch.cuda.get_device_capability(q.device) == (8, 0) and SMS == UTILS["multiprocessor_count"]
    counter = torch.zeros(1, dtype=torch.int32)
    on = torch.empty_like(q, device=q.device), torch.arange(3, device=torch.device("cuda")), q.cuda()
    assert counter.is_cuda and all(each.device == q.device for each in on)
    with torch.cuda.device(q.device.index), torch.cuda.device(q.device):
        torch.cuda.synchronize()
        return own(q.to(DEVICE), k.cuda(), v, scale, block_q, block_kv, causal)
"""


KEEPS = """import tempfile
@torch.library.custom_op("watched::own", mutates_args=(), device_types="cuda")
def operator(q: torch.Tensor) -> torch.Tensor:
    return q + 1
asked = attention
def attention(q, k, v, scale, block_q, block_kv, causal):
    with tempfile.NamedTemporaryFile() as file:
        assert file.write(b"kept") == 4
    return asked(operator(q) - 1, k, v, scale, block_q, block_kv, causal)
"""


def test_what_files_ask_of_a_gpu_is_answered_and_what_they_keep_for_a_while_is_theirs(tmp_path):
    """In a process of its own, as its answers stay; libraries want a folder for what they compile."""
    file = tmp_path / "kernel.py"
    file.write_text(PLAIN + ASKED + KEEPS)
    asked = Experiment(problem=problem(32), asked=TILING)
    found = run(file, asked, Limits())
    if any("disk" in note for note in found["notes"]):
        pytest.skip("this system has no Landlock")
    assert (found["right"], found["findings"]) == (True, [])
    assert found["read_bytes"]["K"] == found["flash2_read_bytes"]["K"]


def test_what_only_a_gpu_has_is_said_with_what_to_change(tmp_path):
    for code in ("torch.cuda.Stream()", "torch.Generator(device='cuda')", "torch.cuda.Event().record()"):
        text = f"import torch\ndef attention(q, k, v):\n    {code}\n"
        with pytest.raises(NotServedError, match=r"^line 3 fails: it asks for a GPU \(.*\), but a watched"):
            watched(tmp_path, text, problem(16))
    with pytest.raises(
        NotServedError, match=r"^line 1 fails: AssertionError: def attention\(q, k, v\): assert k is q"
    ):
        watched(tmp_path, "def attention(q, k, v): assert k is q", problem(16))


OWN = "own = attention\n"
TAILS = [
    "def attention(*args):\n    return own(*args)\n",
    "def attention(q, k, v, sm_scale):\n    return own(q, k, v, sm_scale, 16, 16, False)\n",
    """class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, sm_scale):
        return own(q, k, v, sm_scale, 16, 16, causal)
attention = Function.apply
""",
]


@pytest.mark.parametrize("tail", TAILS)
def test_older_signatures_are_served_by_name(tmp_path, tail):
    assert watched(tmp_path, PLAIN + OWN + tail, problem(16))["right"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def attention(q, k, v): raise ValueError('no')", "line 1 fails: ValueError: no"),
        ("import torch\ntorch.empty(10**15)", "line 2 fails: it needs more memory than it may use"),
        ("import sys\nsys.exit(3)", "line 2 ends Python with sys.exit(3)"),
        ("def attention(q, k, v)\n", "line 1 is not valid Python"),
        ("x = 1", "it defines no function attention"),
        ("def attention(q, k, v): return q", "attention launches no Triton kernel"),
        (
            "raise PermissionError(13, 'Permission denied')",
            "line 1 fails: it writes to the disk or to another",
        ),
        ("def attention(q, k, v, colour): return q", "attention asks for 'colour'"),
        (PLAIN.replace("    return out\n", "    return out[0]\n"), "attention returns (1, 16, 16)"),
        (PLAIN.replace("s = tl.dot(q, k.T)", "s = tl.dot(q, k[None])"), "line 25 fails"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(NotServedError) as error:
        watched(tmp_path, text, problem(16))
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "line", ["V_block = tl.advance(V_block, (lo, 0))", "K_block = tl.advance(K_block, (0, lo))"]
)
def test_a_block_pointer_that_is_not_advanced_is_said(tmp_path, line):
    text = Path(__file__).with_name("watched_block_pointers.py").read_text()
    found = watched(tmp_path, text.replace(line, "pass"), problem(64, True))["findings"]
    kinds = {finding["kind"] for finding in found}
    assert "wrong_rows" in kinds
    assert kinds <= {"wrong_rows", "repeated_tile", "missing_tile", "loaded_again", "extra_tile"}


def test_a_lab_at_a_head_dimension_that_is_no_power_of_two_is_one_sentence():
    lab = Path(__file__).parents[2] / "assets" / "labs" / "1_mask.py"
    with pytest.raises(
        NotServedError, match=r"^line \d+ fails: tl\.arange takes only powers of two; choose "
    ):
        report(lab, Experiment.of(algorithm="flash2", seq=32, heads=1, head_dim=48, block_q=16, block_kv=16))
