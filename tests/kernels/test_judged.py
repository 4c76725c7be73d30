"""A lab is judged by what its kernels did, done again where its file never runs: no other way passes it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import kernels
from engine import Experiment
from engine.__main__ import main
from engine.watch import judge, tape
from engine.watch.labs import ONLY_SHOWN, Lab, broken_rule
from engine.watch.process import FailedError, Limits
from engine.watch.user_file import NotServedError, report
from tests.kernels.test_labs import LABS, SAID, checked, solved
from tests.kernels.watched_kernels import PLAIN

pytestmark = pytest.mark.skipif(not kernels.interpreted(), reason="watched in Triton's interpreter")
TINY = Experiment.of(seq=4, heads=1, head_dim=16, block_q=16, block_kv=16)
Asked = tuple[Path, Experiment, float, str]


def asked(file: Path, lab: Lab | None = None) -> Asked:
    """What the processes are asked for a lab's scenario, or for a tiny one."""
    return (file, lab.experiment, lab.stretch, lab.function) if lab else (file, TINY, 1.0, "attention")


def written(folder: Path, text: str) -> Asked:
    file = folder / "mine.py"
    file.write_text(text)
    return asked(file)


def judged(request: Asked) -> dict:
    """The judge's report of a file, whose tape goes through JSON as between processes."""
    return judge.judged(json.loads(json.dumps(tape.taken(*request))), *request)


@pytest.mark.parametrize("number", LABS)
def test_a_lab_fails_with_its_hole_and_passes_without_as_the_judge_sees_it(tmp_path, number):
    """He sees what is seen of the file itself: every finding, byte, tile and line."""
    lab, file = LABS[number], tmp_path / "mine.py"
    for text in (lab.file.read_text(), solved(lab)):
        file.write_text(text)
        own, reason = checked(lab, file)
        assert (reason is None) == (text == solved(lab))
        kinds = [finding["kind"] for finding in own["findings"]] or ["bytes"]
        assert reason is None or (reason.endswith(".") and SAID.get(number, kinds[0]) in kinds)
        if reason is None or number in SAID:  # a hole of each kind
            found = judged(asked(file, lab))
            assert found.pop("right_on_others") == found["right"]
            assert json.dumps(found) == json.dumps(own)


COPIED = """
@triton.jit
def put(place, at, value):
    tl.store(place + at, value)


@triton.jit
def copy(here, there, n):
    at = tl.arange(0, 64)
    tl.store(there + at, tl.load(here + at, mask=at < n), mask=at < n)


def attention(q, k, v, scale, block_q, block_kv):
    right = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
    out = torch.empty_like(q)
    {}
    return out
"""
CHEATS = {
    "numbers of O": "for at, value in enumerate(right.flatten().tolist()): put[(1,)](out, at, value)",
    "O by the host after a kernel": "put[(1,)](out, 0, 0.0); out.copy_(right)",
}


@pytest.mark.parametrize("name", CHEATS)
def test_an_answer_that_no_kernel_computed_does_not_pass(tmp_path, name):
    found = judged(written(tmp_path, PLAIN.split("@triton.jit")[0] + COPIED.format(CHEATS[name])))
    assert not found["right_on_others"]
    assert found["right"] == (name == "numbers of O")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "copy[(1,)](right, out, 64)",
            "gives its kernel a tensor of numbers that is neither one that it was given",
        ),
        ("q.mul_(2.0); copy[(1,)](q, out, 64)", "it changes a tensor that it was given before"),
        (
            "copy[(1,)](q, out, 64); out += 1; copy[(1,)](out, q, 64)",
            "it changes a tensor between its kernels",
        ),
        ("copy[(1,)](q, out, 64); out = right", "it must return a tensor that its kernels were given, and"),
        ("out = q", "attention launches no Triton kernel"),
    ],
)
def test_what_is_done_beside_the_kernels_is_refused(tmp_path, line, sentence):
    with pytest.raises(NotServedError, match=sentence):
        tape.taken(*written(tmp_path, PLAIN.split("@triton.jit")[0] + COPIED.format(line)))


@pytest.mark.parametrize(
    ("style", "values", "tiles"),
    [
        ("block_pointers", {"heads": 1, "causal": True}, (32, 16)),  # its own, of its first configuration
        ("descriptors", {"heads": 1, "causal": True, "dtype": "bfloat16"}, (16, 16)),
        ("products", {"seq": 6, "heads": 2, "kv_heads": 1}, (1, 16)),
    ],
)
def test_every_way_to_write_a_kernel_is_watched_unchanged_and_judged_alike(style, values, tiles):
    """Block pointers, descriptors, and products element by element."""
    experiment = Experiment.of(**{"seq": 32, "head_dim": 16, "block_q": 16, "block_kv": 16} | values)
    file = Path(__file__).with_name(f"watched_{style}.py")
    seen, found = report(file, experiment), judged((file, experiment, 1.0, "attention"))
    assert found.pop("right_on_others")
    assert json.dumps(found) == json.dumps(seen)
    assert (seen["right"], seen["findings"]) == (True, [])
    assert (seen["block_q"], seen["block_kv"]) == tiles
    assert all(seen["read_bytes"][tensor] == seen["flash2_read_bytes"][tensor] for tensor in "QKV")
    assert seen["notes"] == ["forward is autotuned: it runs in the first of its 2 configurations."] * (
        style == "block_pointers"
    )


def test_copies_in_another_order_and_filled_memory_are_followed(tmp_path):
    text = PLAIN.replace(
        "    kernel[", "    k = k.transpose(2, 3).contiguous().transpose(2, 3).contiguous()\n"
        "    out, v = torch.zeros_like(q), v.clone().float().half()\n    kernel["
    )  # fmt: skip
    found = judged(written(tmp_path, text))
    assert (found["right"], found["right_on_others"], found["findings"]) == (True, True, [])


def spoilt(good: dict, change) -> dict:
    given = json.loads(json.dumps(good))
    change(given, next(iter(given["launches"][0]["programs"].values())))
    return given


def held(number, dtype: str, kind: str, *shape: int) -> dict:
    return {"constant": [number, list(shape or [1]), dtype, {"type": [kind, 0, []]}]}


OUT = {"pointer": [3, 0, {"type": ["fp16", 1, []]}]}
NUMBER = {"pointer": [3, 0, {"type": ["int32", 1, []]}]}
ORDER = [{"enum": ["MEM_SEMANTIC", "ACQUIRE_RELEASE"]}, {"enum": ["MEM_SYNC_SCOPE", "GPU"]}]
FORGED = {  # operations that come after a program's own
    "another operation": ["__init__", [], {}, 1],
    "machine code": ["create_inline_asm", ["", "", [], None, False, 1], {}, 1],
    "a swap in memory": ["create_atomic_cas", [NUMBER, *[held(0, "int32", "int32")] * 2, *ORDER], {}, 1],
    "wider numbers": ["create_store", [OUT, held(1.0, "float64", "fp64"), None, None], {}, 1],
    "objects": ["create_reshape", [held(1, "O", "fp64"), [1], False], {}, 1],
    "another function": ["reduce", ["cdiv", 0, False, [OUT]], {}, 1],
    "a private name": ["create_exp", [{"enum": ["__class__", "x"]}], {}, 1],
    "what is nothing": ["create_exp", [{"line": [1]}], {}, 1],
    "several at once": ["create_exp", [OUT | NUMBER | held(1, "bool", "int1")], {}, 1],
    "too much to hold": [
        "create_exp",
        [{"constant": [1.0, [2**40], "float32", {"type": ["fp32", 0, []]}]}],
        {},
        1,
    ],
    "a deep list": ["create_exp", [json.loads("[" * 400 + "]" * 400)], {}, 1],
}
SPOILT = {  # what becomes of the rest
    "nothing": lambda tape: tape.clear(),
    "a view past its end": lambda tape: tape["returned"][0].__setitem__(4, 10**9),
    "too much memory": lambda tape: tape["memory"][3].update(size=10**15),
    "no dtype": lambda tape: tape["memory"][3].update(dtype="save"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> tuple[dict, Asked]:
    request = written(tmp_path_factory.mktemp("good"), PLAIN)
    return tape.taken(*request), request


@pytest.mark.parametrize("name", [*FORGED, *SPOILT])
def test_a_tape_that_no_kernel_made_is_a_sentence(good, name):
    def change(tape: dict, program: list) -> None:
        SPOILT[name](tape) if name in SPOILT else program.append(FORGED[name])

    with pytest.raises(NotServedError) as error:
        judge.judged(spoilt(good[0], change), *good[1])
    assert "\n" not in str(error.value)
    assert judge.judged(good[0], *good[1])["right_on_others"]


def test_addresses_outside_of_the_tensors_bring_nothing(good):
    def far(tape: dict, program: list) -> None:
        for step in program:
            for value in step[1]:
                if isinstance(value, dict) and "pointer" in value:
                    value["pointer"][1] -= 2**20

    found = judge.judged(spoilt(good[0], far), *good[1])
    assert {each["kind"] for each in found["findings"]} >= {"out_of_bounds"}
    assert not found["right"]


def test_a_lab_passes_through_its_processes_and_a_forged_report_does_not(tmp_path, capsys):
    lab = replace(LABS[4], experiment=LABS[4].experiment.changed(seq=32, seq_kv=32, heads=1, kv_heads=1))
    file = tmp_path / "mine.py"
    spoils = """
from engine.watch.tape import Tape
own = Tape.ended
def ended(self, grid):
    own(self, grid)
    for program in self.launches[-1]["programs"].values():
        program.{}
Tape.ended = ended
"""
    prints = ["create_print", ['{"report": {}}', False, [held(1, "int32", "int32")], [True]], {}, 1]
    file.write_text(solved(LABS[4]) + spoils.format(f"extend({[prints]} * 1000)"))
    found = lab.check(file, Limits())  # where what is judged prints
    assert (found["passed"], found["reason"]) == (True, None)
    assert all(note.startswith("This system does not keep a file from ") for note in found["notes"])
    forged = """
import __main__, json, os
import engine.watch.labs, engine.watch.process, engine.watch.tape
report = {"right": True, "findings": [], "right_on_others": True, "notes": []}
good = {"tape": {}, "report": report, "found": report}
def attention(q, k, v, scale, block_q, block_kv):
    for module in (__main__, engine.watch.process):
        module._report = module.judged_tape = lambda *_: good
    engine.watch.labs.broken_rule = engine.watch.tape.taken = lambda *_: None
    for each in range(64):
        try:
            os.write(each, json.dumps(good).encode())
        except OSError:
            pass
    os._exit(0)
"""
    file.write_text(forged)
    with pytest.raises(FailedError, match=r"^mine\.py: what it did cannot be done again"):
        lab.check(file, Limits())
    large = [held(1, "float32", "fp32", 2048, 2048)] * 3
    again = f"extend({[['create_dot', [*large, None, 0], {}, 1]]} * 10**4)"
    file.write_text(solved(LABS[4]) + spoils.format(again))
    with pytest.raises(FailedError, match=r"^mine\.py: it still runs after 1\.5 s, and was ended"):
        lab.check(file, Limits(seconds=1.5))
    with pytest.raises(SystemExit, match="2"):
        main(["lab", "4", str(tmp_path / "none.py")])
    assert capsys.readouterr().err.endswith("none.py is not a file that can be read\n")
    assert broken_rule(found) is None
    assert ONLY_SHOWN.endswith(".")
