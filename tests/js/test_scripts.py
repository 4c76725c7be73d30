"""The browser's modules that need no page, by their own tests in Node.js: `npm test` runs the same."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from app.player import backward, payload
from engine.experiment import Experiment
from tests.test_toy_algorithm import toy

__all__ = ["toy"]
HERE = Path(__file__).parent
TESTS = sorted(HERE.glob("*.test.js"))


def node(*words: str | Path, given: str = "") -> subprocess.CompletedProcess:
    """Node.js run from the root; who only uses the dashboard needs none, and the test skips."""
    found = shutil.which("node")
    if not found:
        reason = "Node.js is not installed, so the browser's modules cannot run"
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(reason)
    kept = {"capture_output": True, "text": True, "encoding": "utf-8", "timeout": 600}
    return subprocess.run([found, *map(str, words)], cwd=HERE.parents[1], input=given, **kept)


def test_the_modules_pass_their_own_tests():
    assert len(TESTS) >= 6
    ended = node("--test", "--test-reporter=tap", *TESTS)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_moment_of_every_algorithm_has_its_sentence(toy, tmp_path):
    """One that no script knows among them, rows without keys and keys without queries."""
    small = {"block_q": 32, "block_kv": 32, "head_dim": 16}
    ragged = {**small, "seq": 100, "seq_kv": 150, "window": 70}
    shared = {**small, "seq": 128, "heads": 4, "kv_heads": 2, "causal": True}
    unseen = ({**small, "seq": 50, "seq_kv": 20, "causal": True}, {**small, "seq": 20, "seq_kv": 100})
    forward = ("standard", "flash1", "flash2", "toy")
    made = [payload.build(Experiment.of(**ragged, algorithm=name)) for name in forward]
    made.append(payload.build(Experiment.of(algorithm="split_kv", seq=1, seq_kv=512, splits=4)))
    made += [backward.build(Experiment.of(**values)) for values in (ragged, *unseen, shared)]
    files = [tmp_path / f"{number}" for number in range(len(made))]
    for file, block in zip(files, made, strict=True):
        file.write_bytes(block)
    ended = node(HERE / "sentences.js", *files)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert all(len(sentence) > 20 for run in said for sentence in run)
    assert not any(odd in each for run in said for each in run for odd in ("undefined", "NaN", "null"))
    assert all(run[-1].startswith("Done. ") for run in said)
    *_, last = said
    kernels = [sentence[:8] for sentence in last[2:-2]]
    assert kernels == sorted(kernels)
    assert set(kernels) == {"Kernel 1", "Kernel 2", "Kernel 3"}
    assert last[0].startswith("One head has 128 queries and 128 keys. Its backward pass takes dO")
    assert any("of all 2 heads that share it" in sentence for sentence in last)
