"""The steps of a watched run: what the page of a user's own kernel plays."""

import pytest

import kernels
from engine import Experiment
from engine.watch.user_file import report
from engine.watch.watch import KINDS
from tests.kernels.watched_kernels import PLAIN

pytestmark = pytest.mark.skipif(not kernels.interpreted(), reason="watched in Triton's interpreter")
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
    return {**report(file, Experiment.of(**SCENARIO)), **told}


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
