import kernels  # noqa: F401, I001 (before torch._inductor or anything else imports triton)
import pytest
import torch


@pytest.fixture(scope="session")
def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """What a kernel leaves unwritten shows as NaN."""
    empty, empty_like = torch.empty, torch.empty_like
    monkeypatch.setattr(torch, "empty", lambda *args, **kwargs: empty(*args, **kwargs).fill_(torch.nan))
    monkeypatch.setattr(
        torch, "empty_like", lambda *args, **kwargs: empty_like(*args, **kwargs).fill_(torch.nan)
    )
