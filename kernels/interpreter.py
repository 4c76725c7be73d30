"""Imported before every module here that imports Triton, which must be told to interpret before."""

import os
import sys
from importlib.metadata import version
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


def let_loops_begin() -> None:
    """Triton 3.6 makes integers of arrays of one number, which NumPy refuses from 2.4 on: take the number."""
    from triton.runtime import interpreter

    usual = interpreter._patch_lang_tensor

    def patched(tensor, scope) -> None:
        usual(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched


prepare_triton()
if os.environ.get("TRITON_INTERPRET") == "1" and version("triton").startswith("3.6."):
    let_loops_begin()
