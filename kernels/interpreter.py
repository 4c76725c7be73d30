"""Imported before every module here that imports Triton, which must be told to interpret before."""

import os
import sys
from importlib.util import find_spec


class TritonMissingError(ImportError):
    """No Triton on this platform, or one imported too early to be told to interpret."""


def prepare_triton() -> None:
    """Switch Triton's interpreter on where there is no CUDA device, unless TRITON_INTERPRET decides."""
    if find_spec("triton") is None:
        raise TritonMissingError(
            f"no triton on this platform ({sys.platform}): the kernels need Linux, and `pip install triton`"
        )
    if "TRITON_INTERPRET" in os.environ:
        return
    import torch

    if torch.cuda.is_available():
        return
    if "triton" in sys.modules:
        raise TritonMissingError(
            "triton was imported before kernels, too late to switch on its interpreter, as this machine needs"
            " without a CUDA device: take attention from kernels first, or set TRITON_INTERPRET=1"
        )
    os.environ["TRITON_INTERPRET"] = "1"


prepare_triton()
