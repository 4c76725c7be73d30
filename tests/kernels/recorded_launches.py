"""What an MI300X would be given: launches that Triton makes there, of a driver that writes them down.

Run by test_compile.py in a process of its own, as Triton either interprets or compiles; prints JSON, and then
a line of it for each kernel of the cases given, TARGET=CASE[,CASE...], as `tests.compile_matrix` compiles
them. The last launch finds less shared memory than the rule was told.
"""

from tests import compile_matrix as offline  # noqa: I001 (before Triton, which it has compile)
import json
import sys
import warnings
from types import SimpleNamespace

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from kernels import attention, attention_paged
from kernels.call import device
from kernels.tilings.device import Device

TOLD, LATER = 64 * 1024, 35 * 1024  # bytes of shared memory
launches = []


class Recorder:
    """Stands for a compiled kernel on a GPU: grid, kernel, and the addresses and sizes that it is given."""

    def __init__(self, _source, metadata):
        self.name = metadata.name

    def __call__(self, *handed):
        grid, function, arguments = handed[:3], handed[4], handed[9:]
        assert function == "function"
        numbers = [each for each in flattened(arguments) if isinstance(each, int | float | torch.Tensor)]
        each = [one.data_ptr() if isinstance(one, torch.Tensor) else one for one in numbers]
        launches.append([self.name, grid[0], each])


def flattened(values):
    for value in values:
        yield from flattened(value) if isinstance(value, tuple) else (value,)


class Driver(offline.OfflineDriver):
    target = GPUTarget("hip", "gfx942", 64)
    limit = TOLD
    launcher_cls = Recorder

    def get_current_device(self):
        return str(self.limit)  # of each, Triton asks for its limit once

    def __init__(self):
        self.utils = SimpleNamespace(
            load_binary=lambda *_: ("module", "function", 0, 0, 1024),
            get_device_properties=lambda _device: {"max_shared_mem": self.limit},
        )


def main() -> None:
    offline.stand_in()
    driver.set_active(Driver())
    device.WITHOUT_GPU = Device("gfx942", TOLD)
    q = torch.zeros(1, 4, 200, 16, dtype=torch.float16)
    table, held = torch.zeros(1, 16, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    pool = q.new_zeros(4, 16, 4, 16)
    given = q.detach().requires_grad_()
    for _ in range(2):
        attention_paged(q[:, :, :1], pool, pool, table, held)
        attention(given, q, q, algorithm="flash2").sum().backward()
    Driver.limit, wide = LATER, q.new_zeros(1, 4, 200, 256)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        attention(wide, wide, wide, algorithm="flash2")
    print(json.dumps({"launches": launches, "said": [str(each.message) for each in said]}))
    for asked in sys.argv[1:]:
        target, cases = asked.split("=")
        for one in offline.compiled_for(target, cases.split(",")):
            print(json.dumps(one._asdict() | {"fault": one.fault}), flush=True)


if __name__ == "__main__":
    main()
