"""Pictures for phones: made once, the oldest forgotten, and told of when they are there."""

import json

import pytest

from app import contents
from app.room.pictures import MOST_KEPT, Pictures
from app.room.room import Room, Shown
from engine import Experiment


class Job:
    def __init__(self, result: bytes | None):
        self.result, self.state = result, "failed" if result is None else "done"

    def wait(self, seconds: float) -> bool:
        return True


class Drawer:
    """Stands in for the process: a picture is its request; what is asked to fail does."""

    def __init__(self):
        self.drawn: list[dict] = []

    def submit(self, kind: str, payload: dict) -> Job:
        self.drawn.append(payload)
        return Job(None if payload.get("fails") else json.dumps(payload).encode())


def test_a_picture_is_made_once_and_the_oldest_is_forgotten():
    drawer = Drawer()
    pictures = Pictures(drawer)
    wishes = [{"page": "tiles", "number": number} for number in range(MOST_KEPT + 1)]
    for wish in wishes:
        pictures._keep(wish, pictures._make(wish))
    assert pictures.made(pictures.key(wishes[0])) is None
    assert json.loads(pictures.made(pictures.key(wishes[1]))) == wishes[1]
    pictures.want(wishes[-1])
    assert pictures._thread is None  # nothing was left to do


def test_phones_hear_of_a_picture_when_it_is_made_and_of_none_where_it_fails():
    pictures, session = Pictures(Drawer()), object()
    room = Room(pictures)
    room.lead(session)
    for wish, made in (({"page": "tiles"}, True), ({"fails": True}, False)):
        key = pictures.key(wish)
        assert not pictures.refused(key)
        pictures._keep(wish, pictures._make(wish))
        room.publish(session, Shown("a page", picture=wish))
        state = json.loads(room.stage.text)
        assert (state["picture"], state["making"]) == (key * made, False)
        assert room.picture(key) == (json.dumps(wish).encode() if made else None)


@pytest.mark.parametrize("page", ["speed", "agreement", "gpu"])
@pytest.mark.parametrize(("hardware", "gpu"), [("h200", "NVIDIA H200"), ("h100", "NVIDIA H100 80GB HBM3")])
def test_phones_see_the_recording_of_the_scenarios_gpu(page, hardware, gpu):
    drawn = contents.picture(page).of(Experiment.of(hardware=hardware))
    told = f"{drawn.html} {drawn.data}".replace("Recorded", "recorded")
    assert f"recorded on {gpu}, 20" in told
