"""Importing kernels switches the interpreter on where there is no GPU, and says so where it cannot."""

import os
import subprocess
import sys

import pytest
import torch

from kernels import interpreter
from kernels.interpreter import TritonMissingError, prepare_triton

INTERPRETED_RUN = """
import torch
from kernels import attention, interpreted
import triton
q = torch.ones(1, 1, 1, 16)
assert interpreted() and triton.knobs.runtime.interpret
assert torch.equal(attention(q, q, q), q)
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: nothing to interpret")
def test_without_a_gpu_the_interpreter_is_on():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-c", INTERPRETED_RUN], env=environment, check=True)


def test_a_platform_without_triton_is_named(monkeypatch):
    monkeypatch.setattr(interpreter, "find_spec", lambda name: None)
    with pytest.raises(TritonMissingError, match=r"^no triton on this platform \(\w+\): ") as missing:
        prepare_triton()
    assert isinstance(missing.value, ImportError)


def test_triton_imported_too_early_is_named(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        TritonMissingError, match="take attention from kernels first, or set TRITON_INTERPRET=1"
    ):
        prepare_triton()
    assert "TRITON_INTERPRET" not in os.environ


@pytest.mark.parametrize("value", ["0", "1"])
def test_a_given_triton_interpret_is_kept(monkeypatch, value):
    monkeypatch.setenv("TRITON_INTERPRET", value)
    prepare_triton()
    assert os.environ["TRITON_INTERPRET"] == value
