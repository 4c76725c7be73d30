"""The Softmax page: its numbers are the engine's."""

import numpy as np

from app.rescale import RESCALE
from engine.experiment import Experiment
from engine.problem.inputs import make_inputs
from engine.studies.rescales import Rescaling
from engine.trace.softmax import online_steps
from tests.app.player.test_player_payload import unpack


def shown(app) -> dict:
    """The header of the payload of the page's picture, its scores with -inf where they are masked."""
    drawn = [each.proto for each in app.main.get("bidi_component")]
    (picture,) = (each for each in drawn if each.component_name == RESCALE.name)
    header, _ = unpack(picture.bytes)
    return header | {"scores": [-np.inf if score is None else score for score in header["scores"]]}


def test_the_scenarios_row_is_that_of_dense_attention_on_its_numbers(open_app):
    values = {"seq": "200", "head_dim": "16", "block_kv": "32", "heads": "2", "causal": "true"}
    app = open_app("softmax", **values)
    problem = Experiment.of(seq=200, head_dim=16, heads=1, causal=True).problem
    q, k, v = (array[0].astype(np.float64) for array in make_inputs(problem))
    scores = k[:101] @ q[100] / 4  # row 100 sees keys 0 to 100
    steps = online_steps(scores, 32)
    assert "This is query row 100 of the scenario's first head with its 101 keys" in app.main.caption[0].value
    drawn = shown(app)
    found = Rescaling(np.array(drawn["scores"]), np.array(drawn["values"]), drawn["block"])
    np.testing.assert_allclose(found.steps.m[:4], steps.m, rtol=1e-5)
    np.testing.assert_allclose(found.steps.l[:4], steps.l, rtol=1e-5)
    weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    result = found.steps.final @ found.values
    np.testing.assert_allclose(result, weights @ v[:101, :4], rtol=1e-5)
    assert app.sidebar.selectbox(key="scenario algorithm").disabled
