"""A calibration that a visitor uploads: the GPU of this window, found by its key and listed nowhere."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from app.sidebar import inputs
from engine.problem.hardware import GPUS, PRESET, SHELF, bring

CONTENT = json.loads((SHELF / "h100.json").read_text())


@pytest.fixture
def opened(open_app, monkeypatch):
    """The page Rates, where a file waits in the place for a calibration, if any does."""

    def put(data: bytes | None = None, **values):
        file = data and SimpleNamespace(file_id=str(hash(data)), name="mine.json", getvalue=lambda: data)
        uploader = lambda label, **_: file if "calibration" in label else None  # noqa: E731
        monkeypatch.setattr(inputs.st, "file_uploader", uploader)
        page = open_app("rates", **values)
        (choice,) = [each for each in page.selectbox if each.label == "GPU"]
        return page, choice

    return put


def test_a_brought_gpu_is_the_scenarios_and_listed_for_no_one_else(opened):
    name = "H100 SXM, calibrated 2026-01-02"
    page, choice = opened(json.dumps(CONTENT | {"date": "2026-01-02T00:00:00"}).encode())
    key = choice.value
    assert key.startswith("own-")
    assert choice.options == [*(gpu.name for gpu in GPUS.values()), name]
    assert f"What the {name} reaches" in page.header[0].value
    assert key not in list(GPUS)
    assert opened()[1].options == [gpu.name for gpu in PRESET.values()]
    assert opened(hardware=key)[1].value == key  # who has the link
    asked = f"from engine import Experiment; print(Experiment.of(hardware={key!r}).gpu.name)"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == name  # and what this server starts


def test_what_is_no_calibration_is_a_sentence_and_changes_nothing(opened):
    page, choice = opened(b'{"format": "attention recording"}')
    assert choice.value == "h200"
    assert "mine.json is not a calibration of a GPU." in [each.value for each in page.warning]


def test_a_calibration_of_a_gpu_that_no_preset_knows_is_that_gpu():
    gpu = bring(json.dumps(CONTENT | {"gpu": "NVIDIA Toy 9"}).encode(), "toy.json")
    assert gpu.name == "Toy 9, calibrated 2026-11-27"
    assert GPUS[gpu.key] is gpu
    assert "own-0123456789ab" not in GPUS
