"""The glossary: one sentence a term, names that stand on pages, listed on every page."""

import pytest

from app.glossary import TERMS, found_on_pages, listed, names


@pytest.mark.parametrize("meaning", TERMS.values(), ids=TERMS)
def test_a_term_has_one_sentence(meaning):
    assert meaning[0].isupper() or meaning.startswith(("exp", "m + log l", "32"))
    assert (meaning[-1], ". " in meaning, len(meaning) < 180) == (".", False, True)


def test_a_name_is_found_where_it_begins_a_sentence_too_and_letters_alone_are_not_looked_for():
    found = found_on_pages()
    assert found["requested"] == found["Requested"]
    assert not {"K", "m", "N"} & found.keys()


def test_every_page_lists_every_term(open_app):
    assert listed().count("<dt>") == len(TERMS)
    for page in ("traffic", "softmax"):
        app = open_app(page)
        assert not any(listed() in html.proto.body for html in app.get("html"))  # for whoever opens it
        app.session_state["words"] = True
        lists = [html.proto.body for html in app.run().sidebar.get("html")]
        assert sum(listed() in body for body in lists) == 1


CONCEPTS = (  # of the articles that the lecture follows
    "memory hierarchy, IO complexity, arithmetic intensity, kernel fusion, overflow, safe softmax, online "
    "softmax, exactness, tile, block size, causal, recomputation, loop order, sequence parallelism, warp "
    "partitioning, occupancy, asynchrony, warp group, TMA, FP8, decoding, KV cache, how to use it, when "
    "not to use it, profiling, ncu, recording, general lesson, bottleneck, roofline, NCCL, NVLink, copy "
    "engines, CUDA graph, atomic adds, issue slots, persistent, spill"
)


def test_every_concept_of_the_articles_is_found_and_no_name_means_two_things():
    every = [name for term in TERMS for name in names(term)]
    assert set(CONCEPTS.split(", ")) <= set(every)
    assert len(every) == len(set(every))
