"""The Claims page: verdicts with their number, links that open the scenario, sources without file names."""

import re
from dataclasses import replace
from html import unescape
from math import inf
from urllib.parse import parse_qsl, urlsplit

import pytest

from app.contents import PAGES
from app.page import claims as view
from engine.experiment import Experiment
from engine.studies.claims import CLAIMS, Checked, checked


def cards(app) -> dict[int, str]:
    """The claims that are shown, by number."""
    (html,) = (each.proto.body for each in app.get("html") if "class='claims'" in each.proto.body)
    return {int(re.search(r"<h3>(\d+)\.", card)[1]): card for card in html.split("<section ")[1:]}


def test_every_claim_is_shown_with_its_computed_verdict_and_number(open_app):
    app = open_app("claims")
    shown = cards(app)
    assert shown.keys() == {one.number for one in checked()}
    for one in checked():
        assert f">{one.verdict.capitalize()}</span>" in shown[one.number]
        assert view.number_text(one) in shown[one.number]
        assert one.claim.source[1] in shown[one.number]
    counts = [int(number) for number in re.findall(r"(\d+) (?:right|wrong)", app.header[0].value)]
    assert sum(counts) == len(shown)


@pytest.mark.parametrize("one", checked(), ids=lambda one: f"claim {one.number}")
def test_the_link_opens_the_scenario(one):
    parts = urlsplit(unescape(re.search(r"href='([^']*)'", view._link(one))[1]))
    assert parts.path == one.claim.page in PAGES
    experiment, errors = Experiment.lenient(dict(parse_qsl(parts.query)))
    assert (experiment, errors) == (one.claim.experiment, ())
    assert not re.search(r"\.txt|[0-9a-f]{8}", one.claim.source[0])


def test_a_number_says_its_unit_what_it_is_of_over_what_and_where_it_is_from():
    ends = ((138e6, 138e6), "B"), ((2, 4), "×"), ((1, inf), ""), ((0, 1), "%"), ((1.5e-7, 0), "error")
    told = [view.range_text(*each) for each in ends]
    assert told == ["138 MB", "2× to 4×", "over 1", "at most 1%", "1.5e-07 to 0"]
    claim = replace(CLAIMS[0], what="size", unit="B", claimed=(10, 10), varied="two GPUs")
    text = re.sub("<.*?>", "", view.number_text(Checked(1, claim, (20, 30), "computed")))
    assert text == "20 B to 30 B (computed), where 10 B is claimed: size, over two GPUs"
