"""A file or folder an algorithm: its launch, kernels and tilings, and the record that it names ALGORITHM.

One laid in this folder is found, and `attention` runs it by its key.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

import kernels.interpreter  # noqa: F401 (before Triton is imported)

__all__ = ["ALGORITHMS", "discover"]
_RECORDS: dict = {}
ALGORITHMS: Mapping = MappingProxyType(_RECORDS)  # of `record.Algorithm` by key, in their order


def discover() -> None:
    """Read the records of all that lies in this package's folders."""
    found = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    records = [module.ALGORITHM for module in found if hasattr(module, "ALGORITHM")]
    _RECORDS.clear()
    _RECORDS.update((record.key, record) for record in sorted(records, key=lambda each: each.order))


discover()
