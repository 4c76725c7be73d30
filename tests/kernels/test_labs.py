"""The labs: each fails with its hole, says why, and passes when the marked lines are completed."""

import json
from pathlib import Path

import pytest

import kernels
from engine.__main__ import main
from engine.watch import labs
from engine.watch.user_file import report

pytestmark = pytest.mark.skipif(not kernels.interpreted(), reason="watched in Triton's interpreter")
LABS = labs.labs()
SOLUTIONS = {  # the marked lines completed, in order
    1: ["seen = seen & (keys[None, :] <= queries[:, None])"],
    2: ["p = tl.exp(scores - tl.max(scores, 1)[:, None])"],
    3: ["new = tl.maximum(m, tl.max(scores, 1))"],
    4: [
        "l = l * alpha + tl.sum(p, 1)",
        "accumulator = accumulator * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)",
    ],
    5: ["stop = tl.cdiv(tl.minimum(length, (block + 1) * BLOCK_Q), BLOCK_KV)"],
    6: [
        "k_tile = tl.load(k + places, mask=keys[:, None] < length, other=0.0)",
        "v_tile = tl.load(v + places, mask=keys[:, None] < length, other=0.0)",
        "seen = keys[None, :] < length",
    ],
    7: ["kv_head = head // group"],
    8: ["weight = tl.exp(lse - largest)"],
    9: ["rows = tl.sum(o_tile.to(tl.float32) * d_o_tile.to(tl.float32), 1)"],
    10: ["v_tile = k_tile"],
    11: ["key_block = tl.load(table + (head * tl.num_programs(0) + block) * CHOSEN + entry)"],
    12: ["k_tile = k_tile - mean[None, :]"],
    13: ["state = state * tl.exp(whole) + tl.dot(tl.trans(k_tile * tl.exp(whole - since)[:, None]), v_tile)"],
    14: ["new = tl.where((largest - m) * LOG2_E > THRESHOLD, largest, m)"],
}
SAID = {1: "missing_mask", 4: "missing_rescale", 5: "extra_tile", 6: "ragged_end", 7: "out_of_bounds"}


def solved(lab: labs.Lab) -> str:
    lines, answers = lab.file.read_text().splitlines(), iter(SOLUTIONS[lab.number])
    for place, line in enumerate(lines):
        if "# your line" in line:
            lines[place] = line[: len(line) - len(line.lstrip())] + next(answers)
    assert next(answers, None) is None
    return "\n".join(lines) + "\n"


def checked(lab: labs.Lab, file) -> tuple[dict, str | None]:
    found = report(file, lab.experiment, lab.stretch, lab.function)
    return found, labs.broken_rule(found, lab.compared)


def test_what_lies_outside_as_a_whole_is_not_put_down_to_a_mask():
    """Lab 7 reads key heads 2 and 3 of two; lab 6 half of a block past the end of the last head."""

    def outside(number: int) -> set[str]:
        found, _ = checked(LABS[number], LABS[number].file)
        wrong = (each for each in found["findings"] if each["kind"] == "out_of_bounds")
        return {each["sentence"].split(", ")[-1] for each in wrong}

    assert outside(7) == {"up to 512 bytes past its end: its head or its rows are the wrong ones."}
    assert outside(6) == {"up to 256 bytes past its end: a mask is missing."}


def test_delta_summed_in_16_bits_is_not_right(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(solved(LABS[9]).replace(".to(tl.float32) * d_o_tile.to(tl.float32)", " * d_o_tile"))
    _, reason = checked(LABS[9], file)
    assert reason.startswith("delta is not rowsum(dO o O), first in row ")


def test_what_is_kept_of_a_lab_is_what_is_seen_of_it():
    kept = json.loads((Path(__file__).parents[1] / "app" / "figures" / "lab_5.json").read_text())
    found, reason = checked(LABS[5], LABS[5].file)
    assert kept["reason"] == reason
    assert kept.pop("largest_error") == pytest.approx(found["largest_error"], rel=0.01)
    seen = json.loads(json.dumps(found))
    assert {name: value for name, value in kept.items() if name in seen} == {
        name: value for name, value in seen.items() if name != "largest_error"
    }


def test_the_ladder_is_whole():
    assert list(LABS) == list(SOLUTIONS) == list(range(1, len(LABS) + 1))
    for lab in LABS.values():
        assert len(lab.hints) >= 2
        assert lab.title
        assert lab.task


def test_more_bytes_than_flash2_break_a_rule():
    fine = {"findings": [], "right": True}
    for way in ("read", "written", "flash2_read", "flash2_written"):
        fine[f"{way}_bytes"] = dict.fromkeys("QKVO", 100)
    assert labs.broken_rule(fine) is None
    more = {**fine, "read_bytes": {**fine["read_bytes"], "K": 101}}
    assert labs.broken_rule(more) == "101 bytes of K are read, where 100 are enough."
    assert labs.broken_rule(more, ("Q", "V", "O")) is None


def test_the_command_line_shows_the_task_a_hint_and_whether_it_passes(monkeypatch, capsys):
    assert main(["lab", "4"]) == 0
    shown = capsys.readouterr().out
    assert "The rescale" in shown
    assert LABS[4].hints[0] not in shown
    assert main(["lab", "4", "--hint", "1"]) == 0
    assert capsys.readouterr().out.strip() == LABS[4].hints[0]
    with pytest.raises(SystemExit) as end:
        main(["lab", "4", "--hint", "9"])
    assert end.value.code == 2
    answer = {"right": True, "findings": [{"sentence": "A tile is missing."}], "right_on_others": True}
    monkeypatch.setattr(labs, "run", lambda *_, judge: answer if judge else None)
    assert main(["lab", "4", "mine.py", "--json"]) == 1
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["lab"], said["passed"], said["reason"]) == (4, False, "A tile is missing.")
