import kernels.interpreter  # noqa: F401, I001 (before torch._inductor or anything else imports triton)
import pytest
import torch
from gluon_threads import Descriptor, OnThreads, Parts, Sequences
from quick_interpreter import quicken

from kernels.algorithms.flash3 import backward as flash3_backward
from kernels.algorithms.flash3 import forward as flash3
from kernels.hopper import backward, forward

STAND_INS = {  # for what a launch asks of a GPU
    "_descriptor": Descriptor,
    "multiprocessors": lambda device: 2,
    "zeroed_counter": lambda device: torch.zeros(1, dtype=torch.int32),
}
quicken()


@pytest.fixture(scope="session")
def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def put_on_threads(monkeypatch):
    """A function that runs a kernel for Hopper as threads: two blocks of them share the tiles."""

    def put(module, kernel, *launches):
        monkeypatch.setattr(module, kernel, OnThreads(getattr(module, kernel)))
        for launch in launches:
            for name, stand_in in STAND_INS.items():
                monkeypatch.setattr(launch, name, stand_in, raising=False)

    return put


@pytest.fixture
def on_threads(monkeypatch, put_on_threads):
    """flash3 on threads, and its backward pass."""
    put_on_threads(forward, "attention_kernel", flash3)
    put_on_threads(backward, "gradient_kernel", flash3)
    monkeypatch.setattr(flash3_backward, "_descriptor_of_terms", Descriptor)
    monkeypatch.setattr(flash3_backward, "_descriptor_of_sequences", Sequences)
    monkeypatch.setattr(flash3_backward, "_descriptor_of_sums", Parts)


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """What a kernel leaves unwritten shows as NaN."""

    def poisoned(allocate):
        def allocate_poisoned(*args, **kwargs):
            tensor = allocate(*args, **kwargs)
            return tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor

        return allocate_poisoned

    for name in ("empty", "empty_like"):
        monkeypatch.setattr(torch, name, poisoned(getattr(torch, name)))
