"""One file an algorithm: everything that is true of it alone, in a record that the file names ALGORITHM.

A file laid in this folder is found, and its algorithm is in the model, on the command line and on the pages.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from engine.algorithms.record import BACKWARD, FORWARD, Algorithm, Part, Pipeline

__all__ = ["ALGORITHMS", "BACKWARD", "FORWARD", "Algorithm", "Part", "Pipeline", "compared", "offered"]
_RECORDS: dict[str, Algorithm] = {}
ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(_RECORDS)  # by key, in their order


def offered() -> tuple[str, ...]:
    """Keys of those to choose from."""
    return tuple(key for key, record in ALGORITHMS.items() if record.offered)


def compared() -> tuple[str, ...]:
    """Keys of those that take the tiling asked for: shown side by side on one problem."""
    return tuple(key for key, record in ALGORITHMS.items() if record.compared)


def discover() -> None:
    """Read the records of all files in this package's folders."""
    found = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    records = [module.ALGORITHM for module in found if hasattr(module, "ALGORITHM")]
    _RECORDS.clear()
    _RECORDS.update((record.key, record) for record in sorted(records, key=lambda each: each.order))


discover()
