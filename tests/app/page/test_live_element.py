"""A page's scenario on this machine's GPU, by a worker that plays one: button, switch and sentences."""

import time

import pytest

from app.page.parts import job, live
from app.room import screen
from app.room.pictures import Pictures
from engine.experiment import Experiment
from engine.worker.client import Worker
from tests.app.player.test_player_payload import unpack
from tests.app.room.test_room_on_screen import drawn
from tests.app.worker_page import new_visitor, opened, press, until_done, words

JOBS = "tests.engine.worker_jobs"
LABEL = "Measure on this GPU"


@pytest.fixture(scope="module")
def worker():
    """One whose process is started once; a test that changes its environment ends it."""
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture
def gpu(monkeypatch, worker):
    """A function (job) that puts a GPU here, on which such a job is run; nothing is remembered."""
    worker.ended = 0
    new_visitor(monkeypatch, worker)

    def put(name="measured_here", **payload):
        monkeypatch.setattr(live, "offered", lambda: True)
        monkeypatch.setattr(live, "LIVE", f"{JOBS}:{name}")
        if payload:
            monkeypatch.setattr(live, "payload_of", lambda *_: payload)
        return worker

    return put


@pytest.fixture
def environment(monkeypatch, worker):
    """A function (name, value) that gives the worker's process another environment."""
    yield lambda *value: (monkeypatch.setenv(*value), worker.close())
    worker.close()


def following(page, seconds=60.0):
    """The page run until its switch waits for nothing more."""
    end = time.monotonic() + seconds
    while any("Waiting" in each.value for each in page.caption) or "Cancel" in labels(page):
        assert time.monotonic() < end, "the switch waits without an end"
        time.sleep(0.02)
        page.run()
    return page


def switched(page):
    """The page with the switch on."""
    page.toggle[0].set_value(True)
    return page.run()


def moved(page, tokens):
    """The page with its slider at another length, not yet run."""
    page.session_state["experiment"] = Experiment.of(seq=tokens)


def labels(page):
    return [button.label for button in page.button]


def test_a_machine_without_a_gpu_shows_no_button(monkeypatch):
    monkeypatch.setattr(live, "offered", lambda: False)
    page = opened("traffic")
    assert LABEL not in labels(page)
    assert not page.toggle


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("traffic", ["FlashAttention-2"]),
        ("decoding", ["Split keys (decoding)"]),
        ("masks", ["None, every key", "Causal, keys up to its own", "Window, the last 128 keys"]),
        ("backward", ["Backward pass"]),
        ("flash3", ["FlashAttention-3"]),
        ("across", ["One GPU with all tokens"]),
    ],
)
def test_every_page_measures_what_it_shows(gpu, name, calls):
    gpu()
    page = until_done(press(opened(name), LABEL))
    said = words(page)
    assert "*Measured here*, NVIDIA H200, 2026-11-27 14:02 UTC: bytes of one call" in said
    assert f"{LABEL} again" in labels(page)
    for call in calls:
        assert f"{call}: **32 MB read, 16 MB written, 210 µs** (*modelled* " in said


def test_a_ring_on_the_gpus_that_are_here_stands_beside_model_and_recording(gpu):
    gpu()
    page = until_done(press(opened("across", gpus=2, tokens=32768, seq=4096, head_dim=128), LABEL))
    said = words(page)
    assert "Ring, copy engines, 2 GPUs: **4 ms** (*modelled* 3." in said
    assert "*recorded on NVIDIA H200, 2026-11-27* 3.16 ms)" in said
    assert "**Bytes over NVLink: Ring, copy engines, 2 GPUs**, measured here, NVIDIA H200, 14:02 UTC" in said
    assert "the GPUs sent 67.1 MB and 134 MB, in order; counted are 67.1 MB and 134 MB: keys" in said


def test_blocks_measured_here_stand_beside_their_model(gpu):
    gpu()
    page = until_done(press(opened("gpu", causal="true"), LABEL))
    (picture,) = [each for each in page.get("bidi_component") if each.proto.component_name.endswith("gpu")]
    header, _ = unpack(picture.proto.bytes)
    assert [lane["source"] for lane in header["lanes"]] == ["measured here", "modelled"]
    assert header["lanes"][0]["origin"] == "measured here, NVIDIA H200, 14:02 UTC"


@pytest.mark.parametrize(("name", "calls"), [("traffic", 2), ("gpu", 1), ("start", 2)])
def test_what_was_measured_is_drawn_over_time_here_and_on_phones(gpu, monkeypatch, name, calls):
    gpu()
    shown = []
    monkeypatch.setattr(screen, "opened", lambda: True)
    monkeypatch.setattr(screen, "publish", lambda one: shown.append(one.picture))
    page = until_done(press(opened(name), LABEL))
    there = [each.proto for each in page.get("bidi_component")]
    (picture,) = [each for each in there if each.component_name == "hbm_over_time"]
    origins = [lane["origin"] for lane in unpack(picture.bytes)[0]["lanes"]]
    assert origins[:calls] == ["measured here, NVIDIA H200, 14:02 UTC", *[""] * (calls - 1)]
    assert all(origin.startswith("recorded") for origin in origins[calls : calls + 1])
    kept = page.session_state["measured here"]
    monkeypatch.setattr(screen.scenario, "kept", lambda *_: kept)
    monkeypatch.setattr(screen.scenario, "current", lambda: kept["of"])
    monkeypatch.setattr(screen.scenario, "own_values", lambda _: {})
    screen.publish_page(name, name, "page 1")
    assert Pictures.key(shown[0]) != Pictures.key(shown[0] | {"asked": {}})
    assert drawn(shown[0]) != drawn(shown[0] | {"asked": {}})


def test_the_switch_measures_each_scenario_once_it_stays(gpu):
    worker = gpu()
    page = following(switched(opened("speed")))
    assert "Measured here" in words(page)
    moved(page, 2048)
    page.run()
    assert live.BEFORE in words(page)
    assert "Waiting until the scenario stays as it is." in words(page)
    moved(page, 4096)
    assert live.BEFORE not in words(following(page))
    assert worker.ended == 2  # the length passed by was never measured


def test_the_switch_leaves_others_their_share_of_the_gpu(gpu, monkeypatch):
    gpu()
    monkeypatch.setattr(job, "RESTS", 1e6)
    page = following(switched(opened("speed")))
    moved(page, 2048)
    page.run()
    time.sleep(job.SETTLED)
    assert "Waiting, as one visitor has at most four fifths of the GPU's time." in words(page.run())


def test_the_switch_does_not_end_what_runs(gpu, environment):
    environment("PAUSE", "1")
    worker = gpu()
    page = switched(opened("speed"))
    while "Cancel" not in labels(page.run()):
        time.sleep(0.02)
    moved(page, 2048)
    assert "Waiting for the measurement before." in words(page.run())
    following(page)
    assert worker.ended == 2


def test_who_cancels_is_not_measured_again(gpu):
    gpu("endless", calls=[])
    page = switched(opened("speed"))
    while "Cancel" not in labels(page.run()):
        time.sleep(0.02)
    page = press(page, "Cancel")
    assert not page.toggle[0].value
    assert LABEL in labels(page)


@pytest.mark.parametrize(
    ("name", "payload", "said"),
    [
        ("refuse", {"sentence": "there is no GPU here that PyTorch can use"}, "There is no GPU here that"),
        ("lose", {"calls": []}, "The GPU failed: CUDA error."),
        ("crash", {"signal": 11}, "The worker process ended unexpectedly (signal 11;"),
    ],
)
def test_whatever_fails_is_one_sentence_and_the_page_goes_on(gpu, name, payload, said):
    gpu(name, **payload)
    page = until_done(press(opened("traffic"), LABEL))
    (error,) = page.error
    assert error.value.startswith(said)
    assert LABEL in labels(page)
    assert "Bytes by tensor and direction" in words(page)


def test_times_are_told_where_bytes_cannot_be_had_and_that_another_uses_the_gpu(gpu, environment):
    environment("REFUSED", "the driver lets only administrators read this chip's counters")
    gpu()
    said = words(until_done(press(opened("traffic"), LABEL)))
    assert "FlashAttention-2: **210 µs** (*modelled* " in said
    assert said.count("Bytes were not measured: the driver lets only administrators read this chip's") == 1
    assert "another process seems to use this GPU too." in said


def test_who_may_run_nothing_sees_what_another_has_measured(gpu, monkeypatch):
    gpu()
    until_done(press(opened("traffic"), LABEL))
    monkeypatch.setattr(live.serving, "may_run", lambda: False)
    page = opened("traffic")
    assert LABEL not in labels(page)
    assert "Measured here" in words(page)
