"""Attention kernels in Triton: torch tensors in, torch tensors out.

Without a CUDA device the kernels run in Triton's interpreter, which is switched on when anything is taken
from this package. The interpreter is for correctness, not speed: it runs a kernel at a time, whatever the
thread. Importing the package alone imports neither torch nor Triton.
"""

# ruff: noqa: F401 (type checkers take what is imported for them)

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.call.call import split_blocks
    from kernels.dense import attention
    from kernels.fp8 import attention_fp8
    from kernels.inspection import Probed, Traced, explain, probe_attention, trace_attention
    from kernels.interpreter import TritonMissingError
    from kernels.launch.launch import OutOfSharedMemoryError, interpreted, launch_options
    from kernels.paged import attention_paged
    from kernels.rates import Benchmarks, scenario_marker
    from kernels.reference import reference_attention
    from kernels.selected import attention_selected
    from kernels.varlen import attention_varlen

_MODULES = {  # where each name stands, which is imported when it is first asked for
    "Benchmarks": "rates",
    "OutOfSharedMemoryError": "launch.launch",
    "Probed": "inspection",
    "Traced": "inspection",
    "TritonMissingError": "interpreter",
    "attention": "dense",
    "attention_fp8": "fp8",
    "attention_paged": "paged",
    "attention_selected": "selected",
    "attention_varlen": "varlen",
    "explain": "inspection",
    "interpreted": "launch.launch",
    "launch_options": "launch.launch",
    "probe_attention": "inspection",
    "reference_attention": "reference",
    "scenario_marker": "rates",
    "split_blocks": "call.call",
    "trace_attention": "inspection",
}
__all__ = list(_MODULES)


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
