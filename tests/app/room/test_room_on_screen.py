"""The room on the presenter's screen: what a presentation publishes, and phones' votes in the tally."""

import csv
import gzip
import json
import re

import pytest

from app import room as rooms
from app import serving
from app.gallery.phone import draw
from app.room import screen
from app.room.pictures import Pictures
from app.room.room import Room
from app.tour import file
from engine import simulate
from engine.experiment import Experiment
from tests.app.worker_page import press

STEP = 6  # whose first choice has a reply
STEPS = len(file.load("attention").steps)


class NoPictures(Pictures):
    """Notes what is wanted and makes nothing."""

    def __init__(self):
        super().__init__()
        self.wanted: list[dict] = []

    def want(self, wanted) -> None:
        self.wanted.append(wanted)


@pytest.fixture
def room(monkeypatch):
    opened = Room(NoPictures(), code="K7P2MX")
    opened.address, opened.port, opened.reach = "192.168.1.7", 8602, "network"
    monkeypatch.setattr(rooms, "_open", [opened])
    return opened


def state(room) -> dict:
    return json.loads(room.stage.text)


def live(app) -> str:
    """What shows the room, as HTML."""
    found = [each.proto.body for each in app.main.get("html")]
    return "".join(text for text in found if text.startswith(("Room ", "<div class='join")))


def leads(app) -> bool:
    return f"Room {rooms.current().code} · another window leads the room" not in live(app)


def test_phones_vote_in_the_tours_tally_which_waits_for_the_answer(open_app, room):
    app = open_app("tour", step=str(STEP), present="true")
    step = file.load("attention").steps[STEP - 1]
    options = step.said().options
    shown = state(room)
    assert (shown["title"], shown["place"]) == (step.title, f"step {STEP} of {STEPS}")
    assert shown["choices"] == [option.text for option in options]
    for phone, choice in (("a", 1), ("b", 1), ("c", 0)):
        room.enter(phone)
        room.vote(phone, shown["number"], choice)
    press(app, "tour_choice_1")  # a hand that was raised
    assert not any("vote" in app.button(key=f"tour_choice_{index}").label for index in range(3))
    assert room.heard().votes == [1, 3, 0]
    press(app, "tour_next")
    assert any("Votes: 1 · **3** · 0." in text.value for text in app.main.markdown)
    told = state(room)
    assert (told["votes"], told["right"]) == ([1, 3, 0], 1)
    assert told["replies"][0].startswith("A tile of Q stays on the chip")
    asked = step.said().filled(step.question)
    row = list(csv.reader(room.csv().splitlines()))[2]
    assert row == [f"step {STEP} of {STEPS}", asked, options[1].text, "2", "1"]
    for name in ("tour_next", "present", "present", "tour_back"):  # the same window leads again
        press(app, name)
    assert state(room)["votes"] == [1, 3, 0]


def test_a_presentation_shows_its_pages_to_the_phones_and_the_pictures_that_come_next(open_app, room):
    open_app("traffic", seq="512", present="true")
    shown = state(room)
    assert (shown["title"], shown["number"]) == ("Traffic", 0)
    assert shown["scenario"].startswith("flash2, N 512,")
    assert Experiment.of(**room._pictures.wanted[-1]["values"]) == Experiment.of(seq=512)
    room.left_by(room._leader)
    open_app("start", present="true")
    assert state(room)["scenario"] == "", "Start shows a recording, whose size is another"
    room._pictures.wanted.pop()
    room.left_by(room._leader)
    open_app("tour", step="2", present="true")
    wanted = [(each["asked"]["step"], each["asked"]["told"]) for each in room._pictures.wanted[1:]]
    assert wanted[-1] == (2, False)  # is made first
    assert set(wanted) == {(2, False), (2, True), (3, False)}


def test_without_a_presentation_nothing_is_published_and_votes_can_be_taken_home(open_app, download, room):
    app = open_app("tour", step="2")
    assert not room.stage.text
    assert "Votes of the room, CSV" in download(app)
    assert not live(app)


def test_the_screen_shows_code_and_address_and_says_which_window_leads(open_app, room):
    first = open_app("tour", step="2", present="true")
    press(first, "audience")
    assert "<p class='link'>http://192.168.1.7:8602/<b>K7P2MX</b></p>" in live(first)
    assert 'src="data:image/svg+xml' in live(first)
    assert not first.main.get("code")  # the dashboard's own address leads nobody anywhere
    assert leads(first)
    second = open_app("tour", step="3", present="true")  # a link takes the lead from nobody
    assert not leads(second)
    assert state(room)["place"] == f"step 2 of {STEPS}"
    press(press(second, "present"), "present")  # who presses p does
    assert leads(second)
    first.run()
    assert not leads(first)
    assert state(room)["place"] == f"step 3 of {STEPS}"
    press(press(first, "present"), "present")
    assert state(room)["place"] == f"step 2 of {STEPS}"


def test_where_the_presenters_window_is_gone_a_link_leads(open_app, room):
    open_app("tour", step="2", present="true")
    room.left_by(object())  # another window
    assert not leads(open_app("tour", step="3", present="true"))
    screen._gone(room._leader)
    assert leads(open_app("tour", step="4", present="true"))
    assert state(room)["place"] == f"step 4 of {STEPS}"


@pytest.mark.parametrize("at_hand", [True, False])
def test_the_lecturers_window_shows_votes_at_the_machine_alone(open_app, room, monkeypatch, at_hand):
    monkeypatch.setattr(serving, "at_hand", lambda: at_hand)
    open_app("tour", step=str(STEP), present="true")
    for phone in map(str, range(screen.CROWD)):
        room.enter(phone, "10.0.0.9")
        room.vote(phone, state(room)["number"], 1)
    shown = live(open_app("tour", presenter="true"))
    assert "K7P2MX" in shown
    told = "10 phones (10 from one address) · 10 votes (10 from one address)"
    assert (told in shown, "class='right' style='--share:100%'" in shown) == (at_hand, at_hand)


def test_where_nobody_joins_it_is_said_what_may_stand_in_the_way(open_app, room, monkeypatch):
    app = press(open_app("tour", step="2", present="true"), "audience")
    assert "0 phones" in live(app)
    monkeypatch.setattr(screen, "PATIENCE", 0)
    app.run()
    assert "Room K7P2MX · no phone yet: press a" in live(app)
    assert f"<p>{screen.trouble(room)[0]}</p>" in live(app)


def test_what_keeps_phones_out_is_said_for_the_address_that_there_is(room):
    (first, *others) = screen.trouble(room)
    assert first.startswith("No phone has joined yet.")
    assert any("8602/tcp" in each for each in others)
    room.reach = "machine"
    assert screen.trouble(room) == screen.ALONE


def drawn(payload: dict) -> str:
    """A phone's document, which is drawn in steps."""

    def steps():
        yield (yield from draw(payload))

    *_, document = steps()
    return gzip.decompress(document).decode()


def test_every_page_and_step_of_the_room_has_its_offline_picture():
    wanted = [{"page": page, "values": {}} for page in ("masks", "backward", "flash3", "gpu", "decoding")]
    wanted += [{"page": "across", "values": {}, "asked": {"gpus": "8", "mask": "none"}}]
    step, causal = file.load("attention").steps[STEP - 1], Experiment.of(causal=True)
    place = {"tour": "attention", "step": STEP}
    for told in (False, True):
        wanted += [{"page": "tour", "values": {"causal": "true"}, "asked": place | {"told": told}}]
    for each in wanted:
        text = drawn(each)
        assert "Content-Security-Policy" in text
        assert "postMessage" in text
        assert "<a " not in text
        assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|@import|url\(\s*["']?http""", text)
    assert step.said(causal).value in text  # the last is that step's answer


DRAWN = {step.picture: n for n, step in enumerate(file.load("attention").steps, 1) if step.draws}


def sketch(app) -> dict:
    (found,) = (each for each in app.main.get("bidi_component") if '"truth"' in each.proto.json)
    return json.loads(found.proto.json)


def test_a_room_draws_its_prediction_and_all_curves_stand_over_the_modelled_truth(open_app, room):
    app = open_app("tour", step=str(DRAWN["draw time"]), present="true")
    number = state(room)["number"]
    for n in range(300):
        room.enter(f"{n}")
        room.vote(f"{n}", number, (0, n, 2 * n))
    app.run()
    assert (sketch(app)["truth"], sketch(app)["cloud"]) == ([], [])  # nobody follows the others
    press(app, "tour_next")
    shown, step = sketch(app), file.load("attention").steps[DRAWN["draw time"] - 1]
    assert sorted(shown["cloud"]) == [[0, n, 2 * n] for n in range(300)]
    other = (step.experiment.changed(seq=seq, seq_kv=seq) for seq in shown["lengths"])
    first, *_, last = (simulate(each).modelled.seconds for each in other)
    per_mark = shown["marks"][1][1]  # four times as long
    assert 4 ** (shown["truth"][-1] / per_mark) == pytest.approx(last / first)
    said = 4 ** (299 / per_mark)
    assert shown["says"].endswith(f"half of the 300 who drew said {said:.0f} times or more.")
    assert f"take {last / first:.0f} times as long as 1,024 (modelled)" in shown["says"]


def test_a_room_draws_the_order_of_tiles_and_all_ways_stand_over_the_schedules(open_app, room):
    app = open_app("tour", step=str(DRAWN["draw order"]), present="true")
    assert (sketch(app)["tiles"], sketch(app)["truth"]) == ([4, 4], [])
    number = state(room)["number"]
    ways = (0, 4, 5, 8, 9, 10, 12, 13, 14, 15), (0, 4, 8, 12, 5, 9, 13, 10, 14, 15), tuple(range(16))
    for name, way in zip(("right", "by keys", "all"), ways, strict=True):
        room.enter(name)
        room.vote(name, number, way)
    press(app, "tour_next")
    shown = sketch(app)
    assert shown["truth"] == [4 * i + j for i in range(4) for j in range(i + 1)]
    assert len(shown["cloud"]) == 3
    assert shown["says"].endswith("of the 3 who drew, 2 chose these tiles, and 1 this order.")
