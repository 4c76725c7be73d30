"""The Claims page: verdicts with their numbers, links that open the scenario, sources without file names."""

import re
from html import unescape
from math import inf
from urllib.parse import parse_qsl, urlsplit

import pytest

from app.contents import PAGES
from app.figures import claims as figures
from app.page import claims as view
from engine.experiment import Experiment
from engine.studies.claims import CLAIMS, checked
from engine.studies.claims.verdict import SUBJECTS, VERDICTS, Finding, over, said


@pytest.fixture
def app(open_app):
    opened = open_app("claims")
    assert not opened.exception
    return opened


def badges(app) -> list[str]:
    return [text.value for text in app.markdown if "-badge[" in text.value]


def test_every_claim_is_shown_with_its_computed_verdict(app):
    shown = badges(app)
    assert len(shown) == 44
    by_number = {int(re.search(r"\*\*(\d+)\.", text).group(1)): text for text in shown}
    for one in checked():
        assert f"[{one.verdict.capitalize()}]" in by_number[one.claim.number]


def test_the_headline_counts_the_verdicts(app):
    counts = [int(number) for number in re.findall(r"(\d+) (?:right|off|wrong|not)", app.header[0].value)]
    assert sum(counts) == 44


def hidden(app) -> set[int]:
    """Numbers of the claims that the page's style hides."""
    (filtered,) = (element.proto.body for element in app.get("html") if " of 44<" in element.proto.body)
    _, _, rule = filtered.partition(":is(")
    assert ("display: none" in rule) == bool(rule)
    return {int(number) for number in re.findall(r"\.st-key-claim_(\d+)", rule)}


def test_claims_of_one_verdict_can_be_picked(app):
    numbers = {one.claim.number for one in checked()}
    assert hidden(app) == set()
    for verdict in {one.verdict for one in checked()}:
        app.button_group(key="claims_verdict").set_value(verdict).run()
        assert not app.exception
        picked = {one.claim.number for one in checked() if one.verdict == verdict}
        assert numbers - hidden(app) == picked
        assert any(f">{len(picked)} of 44<" in element.proto.body for element in app.get("html"))
    assert len(badges(app)) == 44


def test_what_was_varied_is_shown_from_the_least_to_the_most():
    row = figures._row(over("time", "%", (50, 70), (40, 60, 45), "some blocks", "modelled"))
    assert row == ["time, over some blocks · modelled", "50 to 70%", "40% … 60%", "for some"]
    row = figures._row(over("time", "×", (2, 2), (6, 8), "some blocks", "modelled"))
    assert row == ["time, over some blocks · modelled", "2×", "6× … 8×", "off by 3×"]


def test_no_source_is_named_by_a_file():
    for claim in CLAIMS:
        assert not re.search(r"\.txt|[0-9a-f]{8}", claim.source)


def test_what_a_claim_is_about_has_a_page():
    assert set(view.SHOWN_ON) == set(SUBJECTS) == {claim.subject for claim in CLAIMS}
    assert set(view.SHOWN_ON.values()) <= PAGES.keys()


@pytest.mark.parametrize("at", range(len(CLAIMS)), ids=lambda at: f"claim {CLAIMS[at].number}")
def test_the_link_opens_the_scenario(at):
    one = checked()[at]
    address = unescape(re.search(r"href='([^']*)'", view._link(one)).group(1))
    parts = urlsplit(address)
    assert parts.path == view.SHOWN_ON[one.claim.subject]
    experiment, errors = Experiment.lenient(dict(parse_qsl(parts.query)))
    assert not errors
    assert experiment == one.claim.experiment
    said = view._link(one).partition("</a>: ")[2]
    assert said.startswith(f"N {experiment.problem.seq_kv:,}, ")
    assert f" {experiment.problem.heads}" in said
    assert said.endswith(f", {experiment.gpu.name}")


def test_numbers_carry_their_units():
    texts = [
        figures.value_text(value, unit)
        for value, unit in (
            (138e6, "B"), (64, "KiB"), (0.0625, "GiB"), (inf, "×"), (1, "yes"), (312e12, "FLOP/s"),
            (32_000, "tokens"), (1.5e-7, "error"), (1.81, "error"), (2034, "FLOP/B"),
        )
    ]  # fmt: skip
    assert texts == [
        "138 MB", "64 KiB", "64 MiB", "does not fit", "yes", "312 TFLOP/s", "32 k tokens", "1.5e-07", "1.81",
        "2,034 FLOP/B",
    ]  # fmt: skip


def test_a_finding_says_what_was_claimed_and_by_how_much_it_misses():
    ranges = ((2, 4), (1, inf), (0, 1))
    words = [figures.claimed_text(Finding("", "×", claimed, 3, "")) for claimed in ranges]
    assert words == ["2 to 4×", "over 1×", "at most 1×"]
    assert "off by 2×" in figures.findings_table([said("size", "B", 10, 20, "computed")])
    assert "not recorded" in figures.findings_table([said("time", "s", 1, None, "not recorded")])


def test_the_verdicts_have_a_colour_each():
    assert set(view.COLOURS) == set(VERDICTS)
