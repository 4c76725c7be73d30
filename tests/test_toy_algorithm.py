"""An algorithm is one file: laid beside the others, it is in the model, at the prompt and on the pages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app.player import payload
from engine import Experiment, simulate
from tests.app.test_player_payload import unpack

ROOT = Path(__file__).resolve().parents[1]
FILE = '''
"""FlashAttention-2 whose tiles read K twice: an algorithm that nobody knew of."""

from dataclasses import replace

from engine.algorithms import flash2
from engine.schedule.step import Tensor, load


def schedule(problem, tiling):
    once = flash2.schedule(problem, tiling)
    (phase,) = once.phases
    return replace(once, phases=(replace(phase, each=(load(Tensor.K), *phase.each)),))


ALGORITHM = replace(
    flash2.ALGORITHM, key="toy", label="Toy attention", short="Toy", order=9, schedule=schedule,
    techniques=None, kernel=None, probed=False, traced=False,
)
'''


@pytest.fixture
def toy(lay_algorithm):
    """The folder that holds the one file."""
    return lay_algorithm("toy", FILE)


def opened(page: str) -> AppTest:
    """A page of the dashboard with the scenario under the toy."""
    app = AppTest.from_file(str(ROOT / "app" / "dashboard.py"), default_timeout=600)
    app._page_hash = calc_hash(page)
    app.query_params["algorithm"] = "toy"
    app.run()
    assert not app.exception
    return app


def test_the_model_knows_it(toy):
    found, like = simulate(Experiment.of(algorithm="toy")), simulate(Experiment.of())
    assert found.traffic.requested.total_read == like.traffic.requested.total_read + 64 * 2**20 // 2


def test_the_command_line_prints_it(toy):
    program = (
        f"import engine.algorithms as found; found.__path__.append({str(toy)!r}); found.discover(); "
        "from engine.__main__ import main; main(['simulate', '--algorithm', 'toy', '--json'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env=os.environ, check=True
    )
    printed = json.loads(done.stdout)
    assert printed == simulate(Experiment.of(algorithm="toy")).summary()
    assert printed["tile_read_bytes"] > 0


def test_an_unknown_one_is_refused_with_the_names_there_are(toy):
    with pytest.raises(ValueError, match=r"one of standard, .*, toy"):
        Experiment.of(algorithm="ring of fire")


def test_the_sidebar_offers_it(toy):
    (choice,) = [box for box in opened("tiles").sidebar.selectbox if box.label == "Algorithm"]
    assert "Toy attention" in choice.options
    assert choice.value == "toy"


def test_the_player_has_its_steps(toy):
    header, arrays = unpack(payload.build(Experiment.of(algorithm="toy", seq=256)))
    assert header["algorithm"] == "toy"
    assert len(arrays["toy.kind"]) > len(arrays["flash2.kind"])


@pytest.mark.parametrize("page", ["tiles", "traffic", "speed"])
def test_a_page_shows_it(toy, page):
    app = opened(page)
    said = [str(element.proto) for element in app.main]
    assert page == "tiles" or any("Toy" in text for text in said)
