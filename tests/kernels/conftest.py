import kernels.interpreter  # noqa: F401, I001 (before torch._inductor or anything else imports triton)
import pytest
import torch
from quick_interpreter import quicken

quicken()


@pytest.fixture(scope="session")
def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


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
