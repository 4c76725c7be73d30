"""Timelines out of the files that the product writes: the other side's reader."""

import csv
import io
import json

import numpy as np

from engine import Experiment
from engine.model.timeline import COLUMNS, Timeline
from engine.studies.timeline_files import FORMAT, VERSION


def from_json(text: str) -> Timeline:
    """The timeline that `as_json` wrote."""
    content = json.loads(text)
    return _timeline(content, content["columns"])


def from_csv(text: str) -> Timeline:
    """The timeline that `as_csv` wrote."""
    about, _, table = text.partition("\n")
    names, *rows = csv.reader(io.StringIO(table))
    return _timeline(
        json.loads(about.removeprefix("# ")), dict(zip(names, zip(*rows, strict=True), strict=True))
    )


def _timeline(about: dict, columns: dict) -> Timeline:
    assert (about["format"], about["version"]) == (FORMAT, VERSION)
    experiment = Experiment.of(**about["experiment"])
    run = about["origin"], about["order"], tuple(about["kernels"]), about["sms"], tuple(about["resident"])
    found = {name: np.array(columns[name], float).astype(dtype) for name, dtype in COLUMNS.items()}
    return Timeline(experiment, *run, **found)
