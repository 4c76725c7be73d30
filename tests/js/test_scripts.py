"""The browser's modules that need no page, by their own tests in Node.js: `npm test` runs the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = sorted(HERE.glob("*.test.js"))


@pytest.fixture(scope="module")
def node() -> str:
    """Where Node.js is; it is needed to develop, not to use the dashboard."""
    found = shutil.which("node")
    if not found:
        reason = "Node.js is not installed, so the tests of the browser's modules cannot run"
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(reason)
    return found


def run(node: str, *files: Path) -> subprocess.CompletedProcess:
    command = [node, "--test", "--test-reporter=tap", *map(str, files)]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, encoding="utf-8", timeout=600)


def test_the_modules_pass_their_own_tests(node):
    assert len(TESTS) >= 6
    ended = run(node, *TESTS)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_test_that_fails_is_seen(node, tmp_path):
    wrong = tmp_path / "wrong.test.mjs"
    wrong.write_text('import test from "node:test";\ntest("wrong", () => { throw new Error("wrong"); });\n')
    assert run(node, wrong).returncode != 0
