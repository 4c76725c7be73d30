"""What the server computes before anybody has come is what the pages then ask for."""

from app.frame.startup import foresee
from engine.model.cluster.kernel import _call
from engine.studies.comparison import recorded_pairs
from engine.studies.recorded_clusters import _held
from engine.studies.survey import _by_length


def test_a_first_visitor_waits_for_none_of_it(open_app):
    foresee()
    kept = (_call, _held, recorded_pairs, _by_length)
    before = [each.cache_info().misses for each in kept]
    assert not open_app("across").exception
    assert not open_app("speed").exception
    assert [each.cache_info().misses for each in kept] == before
