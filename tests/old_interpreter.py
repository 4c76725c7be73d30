"""Whether Triton's interpreter is too old for this NumPy.

Before 3.7 it makes integers of arrays of one number, which NumPy refuses from 2.4 on: a loop over a range of
the kernel's own numbers cannot begin. Told by their versions, as Triton is to be imported after `kernels`.
"""

from importlib.metadata import PackageNotFoundError, version


def release(package: str) -> tuple[int, ...]:
    """The major and minor version; empty where it is not installed."""
    try:
        return tuple(map(int, version(package).split(".")[:2]))
    except PackageNotFoundError:
        return ()


RUNS_NO_LOOP = () < release("triton") < (3, 7) and release("numpy") >= (2, 4)
WHY = "Triton before 3.7 interprets no loop with NumPy 2.4 or later"
