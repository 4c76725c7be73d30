"""A phone in the live room: it follows the presenter, votes, comes back, and shows the picture."""

import gzip
from contextlib import contextmanager
from dataclasses import replace

import pytest

from app import contents, sketch
from app.canvas.offline import document
from app.gallery.phone import TALL as MEASURES_ITSELF
from app.gallery.phone import in_document
from app.gallery.picture import Drawn
from app.room.pictures import Pictures
from app.room.room import Room, Shown
from app.room.votes import Question
from engine.experiment import Experiment
from tests import room_load
from tests.browser.conftest import Watch, window

pytestmark = pytest.mark.browser

QUESTION = Question("step 1 of 2", "How often?", ("once", "twice"))
ASKED = Shown(
    "Reading",
    QUESTION.place,
    picture={"page": "tiles"},
    question=QUESTION,
    asked="How <b>often</b>?",
    choices=QUESTION.choices,
    right=1,
    replies=("Once is too few.", ""),
    hands=(0, 1),
)
TALL, PADDING = 1234, 14  # px of the picture, and above it
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@contextmanager
def joined(browser, room: Room):
    """The page of a phone that opens a room which is served meanwhile."""
    with room_load.served(room), window(browser, **PHONE) as phone:
        page = phone.new_page()
        page.watch = Watch(page)
        page.goto(room.link)
        yield page


def test_a_phone_follows_votes_reloads_and_is_told(browser):
    pictures, session = Pictures(), object()
    drawn = document("Tiles", "", f"<div style='height: {TALL}px'>the picture</div>{MEASURES_ITSELF}")
    pictures._keep(ASKED.picture, gzip.compress(drawn.encode()))
    room = Room(pictures)
    room.lead(session)
    with joined(browser, room) as page:
        page.get_by_text("The lecture has not begun").wait_for()
        page.route("**/picture/*", lambda route: route.fulfill(status=502), times=1)  # lost on its way
        room.publish(session, ASKED)
        page.frame_locator("#picture").get_by_text("the picture").wait_for()
        page.locator(f"#picture[style*='height: {TALL + PADDING}px']").wait_for()
        room.publish(session, Shown("Listen", "step 2 of 2"))
        page.wait_for_function("document.getElementById('picture').hidden")
        display = "getComputedStyle(document.getElementById('picture')).display"
        assert page.evaluate(display) == "block"  # else the next picture may stay blank
        room.publish(session, ASKED)
        page.frame_locator("#picture").get_by_text("the picture").wait_for()
        page.get_by_role("button", name="once").click()
        page.get_by_text("Your vote is counted.").wait_for()
        page.reload()
        page.get_by_role("button", name="once", pressed=True).wait_for()
        assert room.publish(session, replace(ASKED, told=True)) == [1, 1]
        page.get_by_text("Once is too few.").wait_for()
        assert page.locator("#choices button").all_inner_texts() == ["once\n1", "twice\n✓ 1"]
        assert page.locator("#choices button:disabled").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert all("502" in complaint for complaint in page.watch.complaints)
        assert page.watch.hosts == {"127.0.0.1"}


def test_a_phone_says_that_its_room_is_gone_or_closed_and_comes_back_without_its_vote(browser):
    code, session = "K7P2MX", object()
    first, again = Room(code=code), Room(code=code)
    with window(browser) as phone:
        page = phone.new_page()
        with room_load.served(first):
            first.lead(session)
            first.publish(session, ASKED)
            page.goto(first.link)
            page.get_by_role("button", name="once").click()
            page.get_by_text("Your vote is counted.").wait_for()
        page.get_by_text("connection lost, trying again").wait_for()
        with room_load.served(Room(), first.port):
            page.get_by_text("room closed or full, trying again").wait_for()
        again.lead(session)
        again.publish(session, ASKED)
        with room_load.served(again, first.port):
            page.get_by_text(f"room {code}").wait_for()
            page.get_by_role("button", name="once", pressed=False).wait_for()
            assert not page.get_by_text("Your vote is counted.").is_visible()
            page.get_by_role("button", name="twice").click()
            page.get_by_text("Your vote is counted.").wait_for()
            assert again.publish(session, ASKED) == [0, 2]  # a hand was raised


def test_a_phones_picture_stands_and_plays_as_the_presenters(browser):
    pictures, session = Pictures(), object()
    drawn = in_document("tiles", contents.picture("tiles").of(Experiment.of(seq=256)))
    pictures._keep(ASKED.picture, gzip.compress(drawn.encode()))
    room = Room(pictures)
    room.lead(session)
    state = {"race": False, "flaw": "", "speeds": {"single": 1, "race": 1}, "slot": 0.5, "pinned": None}
    moment = {"what": "Player: attention, tile by tile", "part": 1, "playing": False, "state": state}
    with joined(browser, room) as page:
        room.publish(session, replace(ASKED, question=None))
        room.move(moment)  # before the picture is there
        there = page.frame_locator("#picture")
        there.get_by_text("done", exact=True).wait_for()
        room.move(moment | {"part": 0.2, "playing": True})
        there.get_by_role("button", name="Pause").wait_for()
        room.move(moment | {"what": "another picture"})
        there.get_by_role("button", name="Pause").wait_for()


def test_a_phone_draws_a_curve_changes_it_and_finds_it_again(browser):
    pictures, session, wanted = Pictures(), object(), {"page": "tour"}
    asked, told = ({**wanted, "told": told} for told in (False, True))
    truth = sketch.told(Experiment.of(seq=4096, head_dim=128), [])
    for picture, data in ((asked, sketch.asked()), (told, truth)):
        document = in_document("tour", Drawn(moving=sketch.SKETCH, data=data))
        pictures._keep(picture, gzip.compress(document.encode()))
    question = Question("step 1 of 1", "How does it grow?", ())
    shown = Shown("Drawing", picture=asked, question=question, asked=question.text, draws=True)
    room = Room(pictures)
    room.lead(session)
    room.publish(session, shown)
    with joined(browser, room) as page:
        canvas = page.frame_locator("#picture").locator(".sketch canvas")
        page.get_by_text("Draw your prediction in the picture below.").wait_for()
        canvas.wait_for()
        page.wait_for_function("heard")
        for share in (0.9, 0.4):  # the last counts
            box = canvas.bounding_box()
            low, high = box["y"] + 0.8 * box["height"], box["y"] + (1 - share) * box["height"]
            page.mouse.move(box["x"] + 0.25 * box["width"], low)
            page.mouse.down()
            page.mouse.move(box["x"] + 0.99 * box["width"], high, steps=5)
            page.mouse.up()
            page.get_by_text("Your vote is counted.").wait_for()
        page.wait_for_function("told === 204 && mine[shown.number].at(-1) < 500")
        (curve,) = room.curves()
        assert (len(curve), curve[0]) == (33, 0)
        assert 200 < curve[-1] < 500
        page.reload()
        canvas.wait_for()
        page.wait_for_function("heard && mine[shown.number]?.length === 33")
        alone = canvas.evaluate("(canvas) => canvas.toDataURL()")
        assert room.publish(session, replace(shown, told=True, picture=told)) == [1]
        page.frame_locator("#picture").get_by_text("times as long as 1,024 (modelled).").wait_for()
        assert canvas.evaluate("(canvas) => canvas.toDataURL()") != alone
        assert page.watch.complaints == []


def test_a_way_by_tiles_is_drawn_by_hand_and_by_keys_and_grows_beside_the_truth(page, tmp_path):
    experiment = Experiment.of(seq=256, head_dim=64, block_q=64, block_kv=64, causal=True)
    files = {"asked": sketch.way_asked(experiment), "told": sketch.way_told(experiment, [[0, 1]])}
    for name, data in files.items():
        (tmp_path / f"{name}.html").write_text(sketch.SKETCH.offline(data, "A way"), "utf-8")
    page.goto((tmp_path / "asked.html").as_uri())
    page.evaluate("""() => {  // as in a phone's page, which hears what is drawn
        const value = { postMessage: ({ curve }) => (window.heard = curve) };
        Object.defineProperty(window, "parent", { value });
    }""")
    canvas = page.locator(".sketch canvas")
    box = canvas.bounding_box()
    side = page.evaluate("document.querySelector('.sketch canvas').offsetHeight") / 4.6
    page.mouse.move(box["x"] + 0.9 * side, box["y"] + 0.7 * side)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * side, box["y"] + 1.7 * side, steps=4)
    page.mouse.move(box["x"] + 1.9 * side, box["y"] + 1.7 * side, steps=4)
    page.mouse.up()
    assert page.evaluate("heard") == [0, 4, 5]
    page.goto((tmp_path / "told.html").as_uri())
    shown = "document.querySelector('.sketch canvas').toDataURL()"
    before = page.evaluate(shown)
    page.wait_for_function(f"{shown} !== {before!r}")
    page.get_by_text("of the 1 who drew, 0 chose these tiles, and 0 this order.").wait_for()
    assert page.watch.complaints == []
