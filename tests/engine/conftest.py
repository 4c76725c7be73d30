"""What the engine's tests share because it is slow to start."""

from importlib.util import find_spec

import pytest

from engine.worker.client import Worker


@pytest.fixture(scope="session")
def kernel_worker():
    """A worker whose process runs the kernels: it takes seconds to import torch and Triton."""
    if find_spec("triton") is None:  # not imported here: `kernels` must be first
        pytest.skip("Triton is not installed here")
    worker = Worker()
    yield worker
    worker.close()
