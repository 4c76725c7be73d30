"""A short run of the fuzzers; `python -m tests.fuzz` has the long one."""

import pytest

from tests.fuzz import files, links, tours


@pytest.mark.parametrize(("run", "count"), [(links, 250), (files, 60), (tours, 60)])
def test_whatever_comes_in_is_shown_or_refused_in_a_sentence(run, count):
    assert run(20, count)
