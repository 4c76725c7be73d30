"""Numbers that stand in sentences and are not computed there, each held to what it is of."""

import re

import pytest
from streamlit.runtime.state.query_params import sanitize_query_string

from app.glossary import TERMS
from app.scenario.link import LEFT_OUT
from app.scenario.presets import FIRST
from app.tour import file
from engine.parameter import LARGEST_SEQUENCE
from engine.problem.hardware import GPUS, KIB
from engine.recordings.file import CLUSTERS, recordings
from engine.root import ROOT
from engine.studies.claims import CLAIMS
from engine.studies.several_gpus import COUNTS
from tests.room_load import PHONES

README = (ROOT / "README.md").read_text("utf-8")
WORDS = {"fourteen": 14, "nineteen": 19, "two": 2, "four": 4, "a million": 10**6}


def said(pattern: str, text: str = README) -> int:
    """The one number that a text says where the pattern has its group."""
    (found,) = re.findall(pattern, text)
    return WORDS.get(found) or int(found.replace(",", ""))


@pytest.mark.parametrize(
    ("pattern", "number"),
    [
        (r"what papers and popular articles say of attention, (\d+) claims", len(CLAIMS)),
        (r"The lecture: (\w+) steps", len(file.load("attention").steps)),
        (r"a ladder of (\w+) kernels", len(list((ROOT / "assets" / "labs").glob("*.py")))),
        (r"efficiency to ([\d,]+) GPUs", max(COUNTS)),
        (r"(\d+) simulated phones", PHONES),
        (r"opens with (\d+) × \1 tiles", FIRST["tiles"].problem.seq_q // FIRST["tiles"].tiling.block_q),
    ],
)
def test_the_readmes_numbers(pattern, number):
    assert said(f"(?i){pattern}") == number


def test_the_readmes_roundest_numbers():
    """The longest sequence is 2²⁰ tokens; a recordings of several GPUs with lanes are of two and of four."""
    assert said(r"on the tile grid, to (a million) tokens") == pytest.approx(LARGEST_SEQUENCE, rel=0.05)
    lanes = {row.gpus for each in recordings(CLUSTERS) for row in each.cluster_timelines if not row.skipped}
    found = r"Recorded lanes of {} and of {} H200s"
    assert {said(found.format(*each)) for each in ((r"(\w+)", r"\w+"), (r"\w+", r"(\w+)"))} == lanes


def test_the_readme_names_files_that_there_are():
    """In the table of rooms, where a file's name stands beside the folder that it is in."""
    for rooms, words in re.findall(r"^\| (`[a-z]+/.*?`) \| (.*) \|$", README, re.MULTILINE):
        folders = [ROOT / room for room in re.findall(r"`(.*?)`", rooms)]
        assert all(each.exists() for each in folders), rooms
        for name in re.findall(r"`([\w/]+\.py)`", words):
            assert any((folder / name).exists() for folder in (ROOT, *folders)), (rooms, name)


def test_what_terms_say_of_the_gpus_here():
    assert f"an H200 has {GPUS['h200'].sms}." in TERMS["SM|SMs"]
    sizes = [gpu.shared_bytes_sm // KIB for gpu in GPUS.values()]
    text = next(words for name, words in TERMS.items() if name.startswith("SRAM"))
    assert re.search(r"(\d+) to (\d+) KiB", text).groups() == (str(min(sizes)), str(max(sizes)))


def test_what_a_link_may_hold():
    """What Streamlit reads of a link: it reads none with one value more, or with 5% more characters."""
    values, characters = (said(pattern, LEFT_OUT) for pattern in (r"([\d,]+) values", r"([\d,]+) characters"))
    many, long = "&".join(["a=1"] * values), "a=" + "1" * (characters - 2)
    for kept, more in ((many, "&a=1"), (long, "1" * (characters // 20))):
        assert sanitize_query_string(kept)
        assert not sanitize_query_string(kept + more)
