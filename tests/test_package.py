"""The project installed: in a folder of its own, with all that it reads, found by one line."""

import os
import subprocess
import sys
from zipfile import ZipFile

import pytest

from engine.root import ROOT

pytest.importorskip("hatchling")


def test_a_wheel_computes_and_opens_from_another_folder(tmp_path):
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 8e6
    ZipFile(wheel).extractall(tmp_path / "installed")
    (line,) = (tmp_path / "installed" / "attention-tiles.pth").read_text().splitlines()
    where = tmp_path / "installed" / line
    code = "import app.contents, engine.recordings.file as f; print(app.__file__, len(f.recordings()))"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(where)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    place, recordings = ran.stdout.rsplit(maxsplit=1)
    assert place == str(where / "app" / "__init__.py")
    assert int(recordings) >= 2
    packed = {str(each.relative_to(where)) for each in where.rglob("*") if each.is_file()}
    kept = ["git", "ls-files", "app", "engine", "kernels", "assets"]
    kept = subprocess.run(kept, cwd=ROOT, capture_output=True, text=True)
    assert kept.returncode or set(kept.stdout.split()) - {"assets/installed.pth"} <= packed
