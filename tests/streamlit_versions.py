"""`python -m tests.streamlit_versions` runs essential tests against three minor versions of Streamlit.

They are the latest that pip's index lists, each in an environment of its own that is made for it. What a
version lacks is said by the tests that fail there; `app/requirements.txt` should allow those that pass.
"""

import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

from engine.parser import Parser, ended

ROOT = Path(__file__).resolve().parents[1]
LATEST = 3
ESSENTIAL = (  # who may come in, what is drawn, links, back and forward, files, and every name that we know
    *("app/test_serving.py", "app/test_server.py", "app/test_static_files.py"),
    *("app/test_hostile_messages.py", "app/scenario/test_scenario.py", "app/take_home/test_files_to_take.py"),
    *("browser/test_pages.py", "browser/test_moving_pictures.py", "browser/test_connection.py"),
)
NEEDED = ("-r", "app/requirements.txt", "-r", "tests/requirements.txt")


def newest(versions: Iterable[str], most: int = LATEST) -> list[str]:
    """The newest of each of the latest minor versions."""
    numbered = sorted((tuple(map(int, version.split("."))) for version in versions), reverse=True)
    by_minor: dict[tuple[int, ...], tuple[int, ...]] = {}
    for version in numbered:
        by_minor.setdefault(version[:2], version)
    return [".".join(map(str, version)) for version in list(by_minor.values())[:most]]


def listed() -> list[str]:
    """The versions of Streamlit that pip's index has."""
    asked = [sys.executable, "-m", "pip", "index", "versions", "streamlit"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return re.findall(r"\d+\.\d+\.\d+", said.partition("Available versions:")[2])


def environment(folder: Path, version: str) -> Path:
    """The Python of a fresh environment with this version and all else that the tests need."""
    venv.create(folder, with_pip=True)
    (python,) = (
        each for each in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if each.exists()
    )
    for wanted in (NEEDED, [f"streamlit=={version}"]):  # which may lie outside the bounds of the first
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], cwd=ROOT, check=True)
    return python


def passes(version: str) -> bool:
    """Whether the essential tests pass with this version; what pytest says is shown."""
    print(f"Streamlit {version}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder), version)
        tests = [str(ROOT / "tests" / name) for name in ESSENTIAL]
        return not subprocess.run([python, "-m", "pytest", "-q", *tests], cwd=ROOT).returncode


def main() -> int:
    """Run them all; exit code 1 where one fails."""
    Parser("tests.streamlit_versions", __doc__).parse_args()
    found = {version: passes(version) for version in newest(listed())}
    for version, passed in found.items():
        print(f"Streamlit {version}: {'the essential tests pass' if passed else 'tests fail'}")
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(ended(main))
