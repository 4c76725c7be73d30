"""`python -m tests.mutants` plants each fault of `mutants.txt` in a copy of the project, and says which live.

A fault is a number that is wrong, or a door that stands open: the tests named with it must see it. A name
with a reason is followed by a file with its tests, and by the text before and after.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from engine.parser import Parser, ended

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".txt")
GOAL = 0.95  # share that must be killed
SLOWEST = 600  # seconds of a mutant's tests; one that makes them hang is seen
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "node_modules", "__pycache__", ".*_cache", "shared")
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:rerunfailures")


@dataclass(frozen=True)
class Mutant:
    """One exact replacement in one file.

    Attributes:
        name, why: by which it is selected, and what is then wrong.
        file: from the repository's root.
        tests: files of tests, the nearest to it.
        before, after: text that occurs exactly once in the file, and what stands there instead.
    """

    name: str
    why: str
    file: str
    tests: tuple[str, ...]
    before: str
    after: str

    def fault(self, root: Path = ROOT) -> str | None:
        """Why it cannot be planted, in one sentence; None where it can."""
        if missing := [file for file in (self.file, *self.tests) if not (root / file).is_file()]:
            return f"{self.name}: {missing[0]} is no longer there."
        count = (root / self.file).read_text("utf-8").count(self.before)
        if count != 1:
            return f"{self.name}: its text occurs {count} times in {self.file}; it must occur once."
        return None


def read(text: str) -> tuple[Mutant, ...]:
    """The mutants of a list."""
    return tuple(_mutant(part.splitlines()) for part in text.strip("\n").split("\n\n"))


def _mutant(lines: list[str]) -> Mutant:
    name, _, why = lines[0].removeprefix("# ").partition(": ")
    file, _, tests = lines[1].partition(" | ")
    before, after = ("\n".join(line[2:] for line in lines[2:] if line[0] == sign) for sign in "-+")
    return Mutant(name, why, file, tuple(tests.split()), before, after)


def ended_well(copy: Path, tests: tuple[str, ...]) -> tuple[bool, str]:
    """Whether tests pass in a copy, and the end of what they said."""
    # compiled files stand from before: one of a mutant could be taken for the original's
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    command = [sys.executable, *PYTEST, *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SLOWEST
        )
    except subprocess.TimeoutExpired:
        return False, f"no end within {SLOWEST} s"
    said = "\n".join(done.stdout.strip().splitlines()[-4:])
    return done.returncode == 0, said


def lives(mutant: Mutant, copy: Path) -> bool:
    """Whether a mutant's tests pass although it is planted; the copy is as before afterwards."""
    path = copy / mutant.file
    original, stamp = path.read_text("utf-8"), path.stat()
    try:
        path.write_text(original.replace(mutant.before, mutant.after), "utf-8")
        os.utime(path, (stamp.st_mtime + 2, stamp.st_mtime + 2))
        return ended_well(copy, mutant.tests)[0]
    finally:
        path.write_text(original, "utf-8")
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def verdicts(mutants: list[Mutant]) -> dict[str, str]:
    """By name whether each is killed or lives, said as it is found; none where its tests fail without it."""
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        for shared in (".venv", "node_modules"):
            if (ROOT / shared).exists():
                (copy / shared).symlink_to((ROOT / shared).resolve())
        sound: dict[tuple[str, ...], bool] = {}
        found: dict[str, str] = {}
        for one in mutants:
            if one.tests not in sound:
                sound[one.tests], said = ended_well(copy, one.tests)
                if not sound[one.tests]:
                    print(f"{' '.join(one.tests)} fails with nothing planted:\n{said}", flush=True)
            if sound[one.tests]:
                began = time.monotonic()
                found[one.name] = "lives" if lives(one, copy) else "killed"
                took = time.monotonic() - began
                print(f"{found[one.name]:6} {took:4.0f} s  {one.name}: {one.why}", flush=True)
        return found


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 where at least 95% are killed, 1 where fewer are, 2 where one could not be tried."""
    parser = Parser("tests.mutants", __doc__)
    parser.add_argument("--only", metavar="NAME", default="", help="those whose names begin so")
    options = parser.parse_args(arguments)
    chosen = [one for one in MUTANTS if one.name.startswith(options.only)]
    faults = [fault for one in chosen if (fault := one.fault())]
    if not chosen:
        faults = [f"only is {options.only!r}; no mutant's name begins so"]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 2
    found = verdicts(chosen)
    killed = list(found.values()).count("killed")
    print(f"{killed} of {len(chosen)} mutants were killed, {killed / len(chosen):.1%}.")
    return int(killed < GOAL * len(chosen)) if len(found) == len(chosen) else 2


MUTANTS = read(LIST.read_text("utf-8"))
if __name__ == "__main__":
    sys.exit(ended(main))
