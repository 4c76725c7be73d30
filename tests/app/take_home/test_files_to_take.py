"""What a page gives to take home: an offline file that carries all it needs, Python that runs as shown."""

import json
import re
from base64 import b64decode
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO

import pytest

from app.canvas.offline import html_file
from app.player import PLAYER
from app.player.payload import build
from app.take_home import snippet
from engine import Experiment, simulate

SMALL = {"heads": 2, "kv_heads": 1, "seq": 48, "head_dim": 16, "block_q": 16, "block_kv": 32}
SMALL |= {"dtype": "float32"}


def test_the_offline_file_carries_its_payload_and_asks_for_nothing():
    payload = build(Experiment.of(seq=640, causal=True))
    document = PLAYER.offline(payload, "a <title>")
    assert "<title>a &lt;title&gt;</title>" in document
    (packed,) = re.findall(r'id="attention-data">([^<]*)<', document)
    assert b64decode(packed) == payload
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|@import|url\(\s*["']?http""", document)
    assert document.count("</script>") == 2  # no script of the player ends its element early


def test_data_that_json_holds_are_carried_as_such_and_end_no_script():
    data = {"words": "</script><b>", "numbers": [1, 2.5]}
    document = html_file("<p></p>", "", "export default function show() {}", data, "title")
    (packed,) = re.findall(r'id="attention-data">(.*?)</script>', document, re.S)
    assert json.loads(packed) == data


def ran(program: str) -> str:
    """What a program prints, which sees its own names only."""
    with redirect_stdout(StringIO()) as out:
        exec(program, {"__name__": "__main__"})
    return out.getvalue()


def test_the_models_lines_print_this_scenarios_numbers():
    changes = ({}, {"causal": True}, {"window": 20, "algorithm": "flash1"})
    for experiment in (Experiment.of(**SMALL, **values) for values in changes):
        simulation, printed = simulate(experiment), ran(snippet.model(experiment)).splitlines()
        assert printed[0].startswith(f"{simulation.traffic.dram.total:,} bytes")
        assert printed[1].startswith(f"{simulation.traffic.flops:,} FLOPs")
        assert float(printed[2].split()[0]) == pytest.approx(simulation.modelled.seconds, rel=1e-2)


def test_the_kernels_lines_run_as_shown():
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed here")
    import_module("kernels.interpreter")  # before the lines import Triton, for the tests that follow
    algorithms = ("flash2", "split_kv")
    asked = SMALL | {"causal": True, "window": 30, "splits": 2}
    shown = [snippet.kernel(Experiment.of(**asked, algorithm=each)) for each in algorithms]
    assert list(map(ran, shown)) == ["torch.Size([1, 2, 48, 16]) torch.float32\n"] * 2
    assert [one for one, lines in zip(algorithms, shown, strict=True) if "splits=2" in lines] == ["split_kv"]


def test_documents_are_handed_to_the_kernels_by_their_lengths():
    assert "documents=[512, 512], " in snippet.kernel(Experiment.of(documents=2))
    assert "documents=[128] * 8, " in snippet.kernel(Experiment.of(documents=8))
    lines = snippet.kernel(Experiment.of(documents="1000:24", window="5:3"))
    assert "window=(5, 3)" in lines
    assert "documents=[1000, 24]" in lines


def test_every_page_offers_its_files_in_the_same_place(open_app, download):
    for page in ("tiles", "traffic"):
        app = open_app(page, seq="1024")
        files = download(app)
        assert json.loads(files["The scenario and its totals, JSON"]())["seq"] == 1024
        if page == "tiles":
            assert 'id="attention-data"' in files["Player, HTML"]()
        assert [code.value for code in app.sidebar.code] == [
            "Attention, tile by tile: flash2, N 1,024, heads 16, d 64, blocks 64×64",
            snippet.model(Experiment.of()).rstrip(),
            snippet.kernel(Experiment.of()).rstrip(),
        ]
