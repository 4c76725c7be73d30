"""What a mutant is, and which tests are nearest to a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutant:
    """One exact replacement in one file.

    Attributes:
        name: by which it is selected.
        file: from the repository's root.
        before, after: text that occurs exactly once in the file, and what stands there instead.
        why: the number that is then wrong.
        tests: arguments of pytest, as one runs them by hand: the tests nearest to it.
    """

    name: str
    file: str
    before: str
    after: str
    why: str
    tests: tuple[str, ...]

    def fault(self, root: Path = ROOT) -> str | None:
        """Why it cannot be planted, in one sentence; None where it can."""
        path = root / self.file
        if not path.is_file():
            return f"{self.name}: {self.file} is no longer there."
        count = path.read_text(encoding="utf-8").count(self.before)
        if count != 1:
            return f"{self.name}: its text occurs {count} times in {self.file}; it must occur once."
        missing = [
            test
            for test in self.tests
            if test.startswith("tests/") and not (root / test.split("::")[0]).exists()
        ]
        return f"{self.name}: {missing[0]} is no longer there." if missing else None


def planting(prefix: str, file: str, *tests: str, named: str = "{}") -> Callable[..., Mutant]:
    """Makes mutants of a file: of a name, the texts before and after, why, and tests of its own if need be.

    named: how the path of a test follows from its name.
    """

    def mutant(name: str, before: str, after: str, why: str, *own: str) -> Mutant:
        paths = tuple(map(named.format, own or tests))
        return Mutant(f"{prefix}-{name}", file, before, after, why, paths)

    return mutant


def of_engine(file: str, *tests: str) -> Callable[..., Mutant]:
    """`planting` in a file of the engine, with the names of its tests there."""
    return planting("engine", f"engine/{file}", *tests, named="tests/engine/test_{}.py")


def of_kernels(file: str, *tests: str) -> Callable[..., Mutant]:
    """`planting` in a file of the kernels."""
    return planting("kernels", f"kernels/{file}", *tests)
