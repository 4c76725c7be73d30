"""The browser's modules that need no page, by their own tests in Node.js: `npm test` runs the same."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

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


def test_a_test_that_fails_is_seen(tmp_path):
    wrong = tmp_path / "wrong.test.mjs"
    wrong.write_text('import test from "node:test";\ntest("wrong", () => { throw new Error("wrong"); });\n')
    assert node("--test", wrong).returncode != 0
