"""The recording that pages show: of the scenario's GPU, the reader's own, or a sentence and no change."""

import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest

from app import scenario
from app.sidebar import inputs, recording
from engine import Experiment
from engine.recordings.file import dumps, loads, recordings
from engine.recordings.recording import Recording
from engine.studies.several_gpus import cluster_recordings


@pytest.fixture
def upload(monkeypatch):
    """Put a file, and a choice, where the widgets would; what is said of it."""

    def put(data: bytes | None, choice: str = "", hardware: str = "h200") -> list[str]:
        session.clear()
        file = data and SimpleNamespace(file_id=str(hash(data)), name="mine.json", getvalue=lambda: data)
        monkeypatch.setattr(inputs.st, "file_uploader", lambda *_, **__: file)
        monkeypatch.setattr(scenario, "current", lambda: Experiment.of(hardware=hardware))
        recording_place()
        places["recording"] = choice
        return said

    def recording_place():
        inputs.taken("recording", ["json"], 1, "", recording._arrived, recording._left)

    session, places, said = {}, {}, []
    monkeypatch.setattr(scenario, "kept", lambda name, first: session.setdefault(name, first))
    monkeypatch.setattr(scenario, "place", lambda name: places.get(name, ""))
    monkeypatch.setattr(scenario, "go", places.update)
    for kind in ("toast", "warning"):
        monkeypatch.setattr(inputs.st, kind, lambda words, **_: said.append(words))
    monkeypatch.setattr(inputs.st, "rerun", lambda: None)
    return put


@pytest.mark.parametrize(("hardware", "gpu"), [("h200", "H200"), ("h100", "H100 80GB"), ("a100", "H200")])
def test_a_scenario_shows_its_gpus_recording_or_an_h200s(upload, hardware, gpu):
    upload(None, hardware=hardware)
    assert f"{recording.chosen_recording().device.gpu} ".startswith(f"NVIDIA {gpu} ")
    assert recording.unchosen() == f"auto: {gpu.split()[0]}"


def test_an_uploaded_recording_goes_with_its_visitor(open_app, monkeypatch):
    pages_of = {recordings()[0]: ("traffic", "speed", "gpu"), cluster_recordings(None)[0]: ("across",)}
    for shelf, pages in pages_of.items():
        mine = loads(dumps(replace(shelf, device=replace(shelf.device, date="2026-01-01"))).encode(), "mine")
        gone = list(map(weakref.ref, (mine, *mine.timelines)))
        monkeypatch.setattr(recording, "_own", lambda mine=mine: mine)
        for page in pages:
            open_app(page)
        monkeypatch.undo()
        del mine
        gc.collect()
        assert not any(each() for each in gone), shelf.origin


def test_another_recording_of_the_shelf_can_be_chosen_and_stays(upload):
    upload(None)
    chosen = next(name for name in recording._all() if "H100" in name)
    for hardware in ("h200", "h100"):
        upload(None, chosen, hardware)
        assert recording.chosen_recording().device.gpu == "NVIDIA H100 80GB HBM3"


def test_an_uploaded_recording_is_shown_instead_and_the_shelf_can_still_be_chosen(upload):
    theirs = dumps(recordings()[0]).replace('"gpu": "NVIDIA H200"', '"gpu": "NVIDIA T4"', 1)
    upload(theirs.encode())
    assert recording.chosen_recording().device.gpu == "NVIDIA T4"
    name = next(name for name in recording._all() if not name.startswith("yours"))
    upload(dumps(recordings()[0]).encode(), name)
    assert recording.chosen_recording() == recordings()[0]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"not json", "mine.json"),
        (b"{}", "not a recording of attention"),
        (b'{"format": "attention recording", "version": 2}', "version 2"),
    ],
    ids=["text", "other JSON", "another version"],
)
def test_what_is_no_recording_gets_a_sentence_and_changes_nothing(upload, data, says):
    sentence, again = upload(data)  # where nobody has to scroll for it, and where the file is
    assert sentence == again
    assert says in sentence
    assert "\n" not in sentence
    assert recording.chosen_recording() == recordings()[0]


def test_an_upload_says_at_once_what_it_brought_and_is_gone_with_its_file(upload):
    (said,) = upload(dumps(recordings()[0]).encode())
    assert "All pages now show your recording of H200" in said
    assert f"{len(recordings()[0].timings):,} times" in said
    assert recording._own() is not None
    recording._left()
    assert recording._own() is None


def test_a_recording_of_several_gpus_alone_says_its_rows():
    every = next(each for each in cluster_recordings(None) if each.cluster)
    own = Recording(every.device, cluster=every.cluster)
    assert recording._brings(own).endswith(f": {len(every.cluster)} times on several GPUs.")
