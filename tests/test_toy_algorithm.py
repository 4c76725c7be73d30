"""An algorithm is one file: laid beside the others, it is in the model, at the prompt and on the pages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.player import payload
from engine import Experiment, simulate
from tests.app.conftest import open_app
from tests.app.player.test_player_payload import unpack

__all__ = ["open_app"]
ROOT = Path(__file__).resolve().parents[1]
FILE = '''
"""FlashAttention-2 whose tiles read K twice: an algorithm that nobody knew of."""

from dataclasses import replace

from engine.algorithms import flash2
from engine.schedule.step import Tensor, load


def schedule(problem, tiling):
    once = flash2.schedule(problem, tiling)
    (phase,) = once.phases
    return replace(once, phases=(replace(phase, each=(load(Tensor.K), *phase.each)),))


ALGORITHM = replace(
    flash2.ALGORITHM, key="toy", label="Toy attention", short="Toy", order=9, schedule=schedule,
    techniques=None, kernel=None, probed=False, traced=False,
)
'''


KERNEL = '''
"""Attention whose values are all doubled, by a kernel that takes no mask."""

import triton
import triton.language as tl

from kernels.algorithms.flash2 import flash2
from kernels.algorithms.record import Algorithm


@triton.jit
def double(values, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(values + at, 2 * tl.load(values + at, at < count), at < count)


def toy(q, k, v, call):
    out, lse = flash2(q, k, v, call)
    double[(triton.cdiv(out.numel(), 64),)](out, out.numel(), BLOCK=64)
    return out, lse


ALGORITHM = Algorithm(key="toy", order=9, forward=toy, serves=frozenset(("causal",)), most_splits=0)
'''


@pytest.fixture
def toy(lay_algorithm):
    """The folder that holds the one file."""
    return lay_algorithm("toy", FILE)


@pytest.fixture
def toy_kernel(tmp_path, monkeypatch):
    """A file of a kernel, laid beside those of the product."""
    algorithms = pytest.importorskip("kernels.algorithms", exc_type=ImportError)
    folder = tmp_path / "kernel"
    folder.mkdir()
    (folder / "toy.py").write_text(KERNEL)
    with monkeypatch.context() as patch:
        patch.setattr(algorithms, "__path__", [*algorithms.__path__, str(folder)])
        algorithms.discover()
        yield
    sys.modules.pop("kernels.algorithms.toy")
    algorithms.discover()


def test_the_model_knows_it_and_the_command_line_prints_it(toy):
    found, like = simulate(Experiment.of(algorithm="toy")), simulate(Experiment.of())
    assert found.traffic.requested.total_read == like.traffic.requested.total_read + 64 * 2**20 // 2
    program = (
        f"import engine.algorithms as found; found.__path__.append({str(toy)!r}); found.discover(); "
        "from engine.__main__ import main; main(['simulate', '--algorithm', 'toy', '--json'])"
    )
    assert json.loads(subprocess.check_output([sys.executable, "-c", program], cwd=ROOT)) == found.summary()
    with pytest.raises(ValueError, match=r"one of standard, .*, toy"):
        Experiment.of(algorithm="ring of fire")


def test_attention_runs_its_kernel_by_its_name(toy_kernel):
    """It serves what its record says, refuses anything else in one sentence, and auto never takes it."""
    import torch

    from kernels import attention, explain, interpreted

    q = torch.randn(1, 2, 40, 16, device="cpu" if interpreted() else "cuda")
    assert explain(q, q, q, algorithm="toy") == "toy runs: it was asked for"
    twice, once = (attention(q, q, q, causal=True, algorithm=name) for name in ("toy", "flash2"))
    assert torch.equal(twice, 2 * once)
    assert torch.equal(attention(q, q, q, causal=True), once)
    for mask in ({"window": 9}, {"documents": [30, 10]}, {"softcap": 3.0}):
        with pytest.raises(
            ValueError, match=r"'toy', which does not serve this call: toy takes causal alone$"
        ):
            attention(q, q, q, algorithm="toy", **mask)
    with pytest.raises(
        ValueError, match=r"'toy' and q requires grad, it must be one of auto, flash2, flash3, "
    ):
        attention(q.requires_grad_(), q, q, algorithm="toy")


def test_the_sidebar_offers_it_and_the_player_has_its_steps(toy, open_app):
    (choice,) = [
        box for box in open_app("tiles", algorithm="toy").sidebar.selectbox if box.label == "Algorithm"
    ]
    assert "Toy attention" in choice.options
    assert choice.value == "toy"
    header, arrays = unpack(payload.build(Experiment.of(algorithm="toy", seq=256)))
    assert header["algorithm"] == "toy"
    assert len(arrays["toy.kind"]) > len(arrays["flash2.kind"])


@pytest.mark.parametrize("page", ["tiles", "traffic", "speed"])
def test_a_page_shows_it(toy, open_app, page):
    app = open_app(page, algorithm="toy")
    assert not app.exception
    said = [str(element.proto) for element in app.main]
    assert page == "tiles" or any("Toy" in text for text in said)
