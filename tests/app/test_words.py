"""The glossary: one sentence a term, names that stand on pages, listed on every page."""

from __future__ import annotations

import re

import pytest

from app import glossary
from app.glossary import TERMS, names


@pytest.mark.parametrize("term", TERMS)
def test_a_term_has_one_sentence(term):
    meaning = TERMS[term]
    assert meaning[0].isupper() or meaning.startswith(("exp", "m + log l", "32"))
    assert meaning.endswith(".")
    assert ". " not in meaning
    assert len(meaning) < 180


def test_no_name_means_two_things():
    every = [name for term in TERMS for name in names(term)]
    assert len(every) == len(set(every))


def test_a_name_is_found_where_it_begins_a_sentence_too_and_letters_alone_are_not_looked_for():
    found = glossary.found_on_pages()
    assert found["requested"] == found["Requested"]
    assert not {"K", "m", "N"} & found.keys()


def test_every_page_lists_every_term(open_app):
    for page in ("traffic", "softmax"):
        app = open_app(page)
        (listed,) = [text.value for text in app.sidebar.markdown if "arithmetic intensity" in text.value]
        assert len(re.findall(r"^\*\*", listed, re.M)) == len(TERMS)
