"""What a file asks of a GPU, answered as one would where that is harmless: its tensors lie on the CPU.

Imports torch and Triton when called.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

CAPABILITY = (8, 0)  # an A100's, for which every file has a way that the interpreter knows as well
PROPERTIES = {
    "name": "Triton's interpreter", "major": CAPABILITY[0], "minor": CAPABILITY[1],
    "multi_processor_count": 108, "warp_size": 32, "total_memory": 80 * 2**30,
    "max_threads_per_multi_processor": 2048, "regs_per_multiprocessor": 65536,
    "shared_memory_per_block": 48 * 2**10, "shared_memory_per_block_optin": 163 * 2**10,
    "shared_memory_per_multiprocessor": 164 * 2**10,
}  # fmt: skip
DRIVER_PROPERTIES = {
    "multiprocessor_count": 108, "max_shared_mem": 163 * 2**10, "max_num_regs": 65536, "warpSize": 32,
    "sm_clock_rate": 1410000, "mem_clock_rate": 1215000, "mem_bus_width": 5120,
}  # fmt: skip
ANSWERS = {  # of torch.cuda
    "is_available": True, "is_bf16_supported": True, "device_count": 1, "current_device": 0,
    "get_device_capability": CAPABILITY, "get_device_name": PROPERTIES["name"],
    "get_device_properties": SimpleNamespace(**PROPERTIES), "current_stream": SimpleNamespace(cuda_stream=0),
    "init": None, "synchronize": None, "empty_cache": None, "set_device": None,
    "device": nullcontext(), "device_of": nullcontext(), "stream": nullcontext(),
}  # fmt: skip


def answer_for_gpu() -> None:
    """Answer questions to torch.cuda and to Triton's driver, for the rest of the process."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget

    driver = SimpleNamespace(utils=SimpleNamespace())
    answers_of_driver = {
        "get_current_target": GPUTarget("cuda", 10 * CAPABILITY[0] + CAPABILITY[1], PROPERTIES["warp_size"]),
        "get_active_torch_device": torch.device("cuda", 0), "get_current_device": 0, "get_current_stream": 0,
        "get_device_interface": torch.cuda, "get_benchmarker": lambda call, **_: call(),
    }  # fmt: skip
    for owner, answers in (
        (torch, {"set_default_device": None}),
        (torch.cuda, ANSWERS),
        (driver, answers_of_driver),
        (driver.utils, {"get_device_properties": DRIVER_PROPERTIES}),
    ):
        for name, answer in answers.items():
            setattr(owner, name, lambda *_, answer=answer, **__: answer)
    triton.runtime.driver.set_active(driver)
    custom_op = torch.library.custom_op  # of whatever device it says that it is
    torch.library.custom_op = lambda *args, device_types=None, **named: custom_op(*args, **named)


@contextmanager
def tensors_as_on_gpu() -> Iterator[None]:
    """Within it tensors say that they lie on a GPU, and what is asked for there is made on the CPU."""
    import torch
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    said = {
        tensor.is_cuda.__get__: True,
        tensor.is_cpu.__get__: False,
        tensor.device.__get__: torch.device("cuda", 0),
        tensor.get_device: 0,
    }

    def here(value: Any) -> Any:
        of_gpu = isinstance(value, str | torch.device) and str(value).partition(":")[0] == "cuda"
        return torch.device("cpu") if of_gpu else value

    class AsOnGpu(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function in said:
                return said[function]
            if function is tensor.cuda:
                return args[0]
            if function is torch.device:
                return function(*args, **(kwargs or {}))
            named = {name: here(value) for name, value in (kwargs or {}).items()}
            return function(*map(here, args), **named)

    with AsOnGpu():
        yield
