"""The small model: NumPy against PyTorch's own parts, its tokens, its texts, its card, its training."""

import json
import re
import time
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from engine.__main__ import main
from engine.experiment import Experiment, ExperimentError
from engine.measuring import train_heads
from engine.problem.heads import SENTENCE, HeadsError, typed
from engine.problem.inputs import make_inputs, tokens_of
from engine.root import ROOT
from engine.small.model import MOST_TYPED, Shape, layers_of, small, unpacked
from engine.small.scores import scores
from engine.small.tokens import BEGIN, Tokens, trained

SENTENCES = [
    SENTENCE,
    "Мороз и солнце; день чудесный!",
    "Ένα μήλο την ημέρα",
    "床前明月光，疑是地上霜。",
    "السلام عليكم ورحمة الله",
    "नमस्ते दुनिया 👩‍👩‍👧",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_tokens_of_any_script_are_the_text_again(text):
    tokens = small().tokens
    found = tokens.encoded(text)
    assert found[0] == BEGIN
    assert b"".join(tokens._bytes(each) for each in found[1:]).decode() == text
    assert typed(f"text:3.1:{text}").q.shape == (4, len(found), 64)


@pytest.mark.parametrize("text", ["\0\0 a \0", "\ud800 lone", "\u202e" * 40, "a\r\n\tb", "🏳️‍🌈" * 15])
def test_whatever_is_typed_is_heads(text):
    found = typed(f"text:5.3:{text}")
    assert np.isfinite(found.q).all()
    assert len(found.tokens) == found.q.shape[1]


def test_merges_are_those_of_counting_anew_each_time():
    text = "the cat sat on the mat; the rat that the cat ate sat there, then"
    words = [list(word.encode()) for word in re.findall(r" ?\w+| ?[^\w\s]+|\s+", text)]
    for token, merge in enumerate(trained(text, 270).merges, 256):
        pairs = [pair for word in words for pair in pairwise(word)]
        most = max(pairs.count(pair) for pair in pairs)
        assert pairs.count(merge) == most
        for word in words:
            at = 0
            while at < len(word) - 1:
                if (word[at], word[at + 1]) == merge:
                    word[at : at + 2] = [token]
                at += 1
    assert Tokens(trained(text, 270).merges).encoded(text)[1:] == [each for word in words for each in word]


def test_numpy_computes_what_pytorch_does():
    pytest.importorskip("kernels.dense")  # which must come before Triton
    torch = pytest.importorskip("torch")
    model = small()
    shape, w = model.shape, {name: torch.from_numpy(each).double() for name, each in model.weights.items()}
    tokens = np.random.default_rng(1).integers(0, shape.vocabulary, 200).tolist()
    logits, layers = model.run(tokens)
    norm = lambda x, weight: torch.nn.functional.rms_norm(x, (shape.width,), weight, 1e-5)  # noqa: E731
    half = shape.head_dim // 2
    angle = torch.arange(200).double()[:, None] * shape.base ** (-torch.arange(half).double() / half)
    turn = torch.polar(torch.ones_like(angle), angle)  # a rotation is a product of complex numbers

    def turned(x):
        return torch.view_as_real(torch.complex(x[..., :half], x[..., half:]) * turn).mT.flatten(-2)

    x = w["words"][tokens]
    for layer in range(shape.layers):
        y = torch.nn.functional.linear(
            norm(x, w[f"{layer}.norm attention"]), w[f"{layer}.qkv"], w[f"{layer}.qkv bias"]
        )
        q, k, v = y.view(200, 8, 64).transpose(0, 1).split([4, 2, 2])
        q, k = turned(q), turned(k)
        for one, ours in zip((q, k, v), layers[layer], strict=True):
            assert float((one - torch.from_numpy(ours)).norm() / one.norm()) < 1e-5
        mask = torch.ones(200, 200, dtype=bool).tril().triu(1 - (128 if layer % 2 == 0 else 200))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + out.transpose(0, 1).flatten(1) @ w[f"{layer}.o"].T
        gate, up = (norm(x, w[f"{layer}.norm mlp"]) @ w[f"{layer}.up"].T).chunk(2, 1)
        x = x + torch.nn.functional.silu(gate) * up @ w[f"{layer}.down"].T
    exact = norm(x, w["norm"]) @ w["words"].T
    assert float((exact - torch.from_numpy(logits)).norm() / exact.norm()) < 1e-5


def test_a_sentence_takes_no_time():
    small()
    layers_of.cache_clear()
    began = time.process_time()
    layers_of("It is a truth universally acknowledged. " * 8)
    assert time.process_time() - began < 0.3


def test_a_scenario_of_a_text_has_its_sizes_its_mask_and_its_numbers():
    name = f"text:3.2:{SENTENCE}"
    one = Experiment.of(inputs=f" {name} ", dtype="float32", block_q=16, block_kv=16)
    tokens, layers = layers_of(SENTENCE)
    flat = one.flat()
    assert (flat["inputs"], flat["seq"], flat["heads"], flat["kv_heads"]) == (name, len(tokens), 4, 2)
    alone = Experiment.of(inputs=name)
    assert (alone.tiling.block_q, alone.tiling.block_kv) == (16, 16)
    assert (flat["causal"], flat["window"], tokens_of(one.problem)) == (True, None, tokens)
    assert Experiment.of(**flat) == one
    q, k, _ = make_inputs(one.problem, heads=2)
    np.testing.assert_array_equal(q, layers[3][0][[2, 3]])
    np.testing.assert_array_equal(k, layers[3][1][[1, 1]])
    long = Experiment.of(inputs="text:2.0:" + "a truth " * 40)
    assert long.problem.mask.window == Shape().window


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("text:3.1:", "The text has 0 characters; it must have 1 to 4,096"),
        ("text:3.1:  \n", "The text has 0 characters; it must have 1 to 4,096, not only"),
        ("text:3.1:" + "a" * 100_000, "The text has 100,000 characters; it must have 1 to 4,096"),
        ("text:3.1:" + "床" * 200, f"tokens; it must have at most {MOST_TYPED}"),
        ("text:6.0:a", "it must be a layer from 0 to 5, a head from 0 to 3 and a text"),
        ("text:0.4:a", "it must be a layer from 0 to 5, a head from 0 to 3 and a text"),
        ("text:a", "it must be a layer from 0 to 5"),
    ],
)
def test_what_is_no_text_is_refused_in_one_sentence(name, said):
    with pytest.raises(HeadsError) as error:
        typed(name)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(ExperimentError, match="inputs is 'text:") as refused:
        Experiment.of(inputs=name)
    assert len(str(refused.value)) < 250


def test_the_card_says_what_its_heads_do():
    card = json.loads((ROOT / "assets" / "heads" / "small.json").read_text())
    passage = np.array(card["passage"])
    found = scores(small(), passage)
    for name, each in found.items():
        np.testing.assert_allclose(each, card["scores"][name], atol=0.006, err_msg=name)
    assert max(map(max, found["previous token"])) > 0.9
    assert max(map(max, found["induction"])) > 0.9
    assert max(map(max, found["sink"])) > 0.5


def test_induction_is_told_from_sinks_and_neighbours():
    """Heads made by hand: one looks one back, one at the begin, one at what followed a token before."""
    made = {"previous token": lambda n: n - 1, "sink": lambda n: 0, "induction": lambda n: n - 63}
    for name, wanted in made.items():

        def run(tokens, wanted=wanted):
            k, q = np.float32(4096) * np.eye(len(tokens), 2048)[None], np.zeros((1, len(tokens), 2048))
            for at in range(len(tokens)):
                q[0, at, max(0, wanted(at))] = 1
            return None, [(q.astype(np.float32), k, k)]

        shape = Shape(layers=1, heads=1, kv_heads=1, window=2048)
        found = scores(SimpleNamespace(run=run, shape=shape), np.arange(1, 200))
        assert found[name] == [[1.0]]
        others = {other: value[0][0] for other, value in found.items() if other not in (name, "local")}
        assert all(value < 0.3 for value in others.values())


def test_training_by_kernels_and_by_pytorch_gives_the_same_losses(tmp_path, monkeypatch):
    kernels, torch = pytest.importorskip("kernels"), pytest.importorskip("torch")

    def pytorch(q, k, v, causal, window):
        seen = torch.ones(q.shape[2], q.shape[2], dtype=bool).tril().triu(1 - (window or q.shape[2]))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, seen, enable_gqa=causal)

    monkeypatch.setattr(train_heads, "Shape", partial(Shape, layers=2))
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"It was the {n}th of {n * n % 97} truths." for n in range(300)))
    curves = []
    for way in (kernels.attention, pytorch):
        monkeypatch.setattr(kernels, "attention", way)
        out = tmp_path / "out.safetensors"
        options = ["--steps", "1", "--batch", "1", "--context", "16"]
        assert main(["train-heads", "--text", str(text), "--out", str(out), *options]) == 0
        card = json.loads(out.with_suffix(".json").read_text())
        curves.append([*card["loss"], *card["held out"]])
        assert unpacked(out.read_bytes()).shape.context == 16
    np.testing.assert_allclose(*curves, atol=2e-3)
