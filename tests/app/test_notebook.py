"""The pictures in a notebook: what `show` gives, what its sliders answer, and the notebooks themselves."""

import html
import json
import re
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from app import contents
from app.notebook import fields, show
from engine import Experiment, simulate
from engine.root import ROOT

pytest.importorskip("IPython")
NOTEBOOKS = sorted((ROOT / "assets" / "notebooks").glob("*.ipynb"))


def document(shown) -> str:
    return html.unescape(re.search(r"srcdoc='(.*?)'", shown._repr_html_(), re.DOTALL)[1])


def test_a_picture_is_one_frame_that_asks_nothing_of_any_server(tmp_path):
    shown = show("tiles", seq=256, causal=True)
    assert "default-src 'none'" in document(shown)
    assert not re.search(r"(?:src|href)=['\"]https?:", document(shown))
    shown.save(tmp_path / "tiles.html")
    assert (tmp_path / "tiles.html").read_text() == document(shown)
    one = np.ones((2, 32, 16))
    np.savez(tmp_path / "heads.npz", q=one, k=one, v=one)
    assert "numbers of a file" in show("softmax", inputs=tmp_path / "heads.npz")._repr_html_()
    assert show(Experiment.of(seq=64), beside=Experiment.of(seq=128))._repr_html_().count("<iframe") == 2


def test_a_page_s_own_values_are_taken_too():
    hopper, blackwell = (show("flash3", generation=one).drawn[0] for one in ("hopper", "blackwell"))
    assert hopper.data == contents.picture("flash3").of(Experiment()).data != blackwell.data


WRONG = ({"what": "tile"}, {"what": "tour"}, {"seq": 0}, {"sequence": 4}, {"generation": "blackwell"})


@pytest.mark.parametrize("given", [*WRONG, {"what": "flash3", "generation": "ada"}])
def test_what_cannot_be_shown_is_one_sentence(given):
    with pytest.raises(ValueError, match=r"^\w+ is .*; it must be .*$"):
        show(**{"what": "tiles", **given})


def test_sliders_bring_the_same_frame_new_numbers_and_say_what_is_wrong():
    controls = pytest.importorskip("app.notebook.controls")
    one = Experiment.of(seq=256)
    drawn = []
    draw = lambda each: drawn.append(each) or show(each).drawn[0]  # noqa: E731
    made = controls.Controls.of("frame", one, show(one).drawn[0], draw)
    assert {each["name"]: each["value"] for each in fields(one)} == {
        "seq": 256, "block_q": 64, "block_kv": 64, "causal": False
    }  # fmt: skip
    made.values = {"seq": 512}
    assert (drawn[-1].problem.seq_q, drawn[-1].problem.seq_kv) == (512, 512)
    assert made.data == show("tiles", seq=512).drawn[0].data
    assert not made.document
    made.values = {"seq": -1}
    assert made.said == "seq is -1; it must be a whole number from 1 to 1,048,576."


def test_a_simulation_prints_as_a_table_with_the_numbers_of_its_summary():
    found = simulate(Experiment.of(seq=2048, causal=True))
    cells = re.sub(r"<[^>]+>", " ", found._repr_html_())
    for name in ("tile_read_bytes", "tiles_visited", "flops", "memory_bytes"):
        assert f"{found.summary()[name]:,}" in cells


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(file, tmp_path, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    if find_spec("triton"):
        import_module("kernels.interpreter")  # before a cell imports Triton, for the tests that follow
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    for cell in json.loads(file.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            shell.run_cell("".join(cell["source"]), store_history=True).raise_error()
    assert len(NOTEBOOKS) == 4
