"""Experiments from flat values: what is kept, what is refused and in which words."""

import pickle

import pytest
from hypothesis import given

from engine import Experiment, ExperimentError
from engine.experiment import HASH, PARAMETERS
from engine.problem.hardware import GPUS
from engine.problem.problem import Mask
from tests.engine.strategies import experiments

LENGTHS = "a number of documents, or lengths that add up to seq_kv, which is 1024"
COUNT = "a whole number from 1 to 1,048,576"
WINDOW = f"{COUNT}, or two, keys before and after, as 4:2"


@given(experiments())
def test_flat_values_restore_the_experiment_also_as_text(experiment):
    flat = experiment.flat()
    assert Experiment.of(**flat) == experiment
    text = {name: str(value) for name, value in flat.items() if value is not None}
    assert Experiment.lenient(text) == (experiment, ())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"block_q": 65}, "block_q is 65; it must be a power of two from 16 to 1024"),
        ({"block_kv": "8"}, "block_kv is 8; it must be a power of two from 16 to 1024"),
        ({"seq": 0}, f"seq is 0; it must be {COUNT}"),
        ({"seq": "many"}, f"seq is 'many'; it must be {COUNT}"),
        ({"seq": 1.5}, f"seq is '1.5'; it must be {COUNT}"),
        ({"seq": True}, f"seq is 'True'; it must be {COUNT}"),
        ({"heads": 6, "kv_heads": 4}, "kv_heads is 4; it must be a divisor of heads, which is 6"),
        ({"dtype": "int8"}, "dtype is 'int8'; it must be one of float16, bfloat16, float32, float8_e4m3fn"),
        ({"causal": "maybe"}, "causal is 'maybe'; it must be true or false"),
        ({"seq": 10**20}, f"seq is {10**20}; it must be {COUNT}"),
        ({"seq": "1,02"}, f"seq is '1,02'; it must be {COUNT}"),
        ({"window": ":4"}, f"window is ':4'; it must be {WINDOW}"),
        ({"window": 0}, f"window is 0; it must be {WINDOW}"),
        ({"window": "1:2:3"}, f"window is '1:2:3'; it must be {WINDOW}"),
        ({"window": (4, 2**20)}, f"window is '(4, 1048576)'; it must be {WINDOW}"),
        (
            {"documents": "1,,2"},
            f"documents is '1,,2'; it must be {COUNT}, or lengths that add up",
        ),
        ({"documents": "600,300"}, f"documents is '600:300'; it must be {LENGTHS}"),
        ({"hardware": "tpu"}, f"hardware is 'tpu'; it must be one of {', '.join(GPUS)}"),
        ({"head_dim_v": 0}, "head_dim_v is 0; it must be a whole number from 1 to 512"),
        ({"head_dim_v": "wide"}, "head_dim_v is 'wide'; it must be a whole number from 1 to 512"),
        ({"softcap": 0}, "softcap is 0.0; it must be a number from 0.01 to 1,000,000, or none"),
        ({"softcap": "nan"}, "softcap is 'nan'; it must be a number from 0.01 to 1,000,000, or none"),
        ({"head_dim": 300}, "head_dim is 300; it must be a whole number from 1 to 256, or to 576 with a lat"),
        ({"latent": True, "head_dim_v": 65}, "head_dim_v is 65; it must be at most head_dim, 64, with a"),
        ({"prefix": -1}, "prefix is -1; it must be a whole number from 0 to 1,048,576"),
        ({"prefix": 3, "window": 9}, "prefix is '3'; it must be 0 with a window or documents, which may "),
        ({"sinks": 3}, "sinks is '3'; it must be true or false"),
        ({"frobnicate": 1}, "frobnicate is 1; it must be left out: known are algorithm, "),
    ],
)
def test_a_bad_value_is_named_with_what_it_must_be(values, message):
    with pytest.raises(ExperimentError) as caught:
        Experiment.of(**values)
    assert str(caught.value).startswith(message)


def test_a_link_with_broken_values_keeps_the_good_ones():
    experiment, errors = Experiment.lenient({"seq": "512", "block_q": "65", "what": "x", "causal": "true"})
    assert (experiment.problem.seq_q, experiment.problem.mask.causal) == (512, True)
    assert experiment.tiling.block_q == 64
    assert sorted(error.field for error in errors) == ["block_q", "what"]


def test_key_heads_and_keys_follow_heads_and_queries_unless_given_and_a_change_keeps_the_rest():
    problem = Experiment.of(heads=3, seq=77).problem
    assert (problem.kv_heads, problem.seq_kv) == (3, 77)
    assert Experiment.lenient({"heads": "6", "kv_heads": "4"})[0].problem.kv_heads == 6
    experiment = Experiment.of(seq=512, window=64)
    assert experiment.changed(window=None).problem.mask.window is None
    assert experiment.changed(block_q=128).flat() == {**experiment.flat(), "block_q": 128}


@given(experiments())
def test_every_parameter_reads_its_own_default_and_value(experiment):
    for parameter in PARAMETERS.values():
        value = parameter.get(experiment)
        assert parameter.holds(value)
        assert parameter.parse(value) == value


@pytest.mark.parametrize(
    ("values", "mask"),
    [
        ({"window": "5,3"}, Mask(window=6, ahead=3)),
        ({"window": (5, 0)}, Mask(window=6)),
        ({"window": "5,300"}, Mask(window=6, ahead=300)),
        ({"documents": "100,200,724"}, Mask(documents=(100, 200, 724))),
        ({"documents": [1000, 0, 24], "causal": True}, Mask(causal=True, documents=(1000, 0, 24))),
        ({"documents": [1024]}, Mask(documents=(1024, 0))),
    ],
)
def test_pairs_and_lengths_are_read_and_given_back(values, mask):
    experiment = Experiment.of(**values)
    assert experiment.problem.mask == mask
    assert Experiment.of(**experiment.flat()) == experiment
    shorter = experiment.changed(seq=512, seq_kv=512).problem.mask
    if isinstance(mask.documents, tuple):
        assert sum(shorter.documents) == 512


def test_an_experiment_takes_no_hash_along_to_another_process():
    one = Experiment.of(seq=640)
    assert {one: 1}[Experiment.of(seq=640)] == 1
    other = pickle.loads(pickle.dumps(one))
    assert HASH in vars(one)
    assert HASH not in vars(other)
    assert (other, hash(other)) == (one, hash(one))
    assert hash(one.changed(seq=641)) != hash(one)
