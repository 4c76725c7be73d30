"""The examples in docstrings of public types give what they say."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    "problem.dtype", "problem.mask", "problem.problem", "problem.bounds", "experiment", "schedule.nest",
    "schedule.columns", "schedule.schedule", "model.launch", "model.traffic", "model.l2", "model.reuse",
    "model.footprint", "trace.execute", "recordings.recording", "layers.model",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_every_example_gives_what_it_says(name):
    found = doctest.testmod(import_module(f"engine.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
