"""Files of tensors, .safetensors: eight bytes of length, a JSON header, numbers."""

import json
from collections.abc import Collection, Mapping

import numpy as np

KINDS = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "BF16": np.uint16}
LARGEST_HEADER = 2**20  # bytes


def read(file: bytes, names: Collection[str] | None = None) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of these names, or all, and what the file says beside them; raises ValueError."""
    try:
        length = int.from_bytes(file[:8], "little")
        if not 2 <= length <= min(LARGEST_HEADER, len(file) - 8):
            raise ValueError("its header is longer than the file")
        header, body, found = json.loads(file[8 : 8 + length]), memoryview(file)[8 + length :], {}
        said = header.pop("__metadata__", {})
        for name in header if names is None else [name for name in names if name in header]:
            kind, shape, (first, last) = (header[name][key] for key in ("dtype", "shape", "data_offsets"))
            array = np.frombuffer(body[first:last], KINDS[kind]).reshape(shape)
            found[name] = (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its header is none ({type(error).__name__})") from None
    return found, {str(name): str(text) for name, text in said.items()}


def written(arrays: Mapping[str, np.ndarray], said: Mapping[str, str]) -> bytes:
    """The file of tensors in float16, float32 or float64, with words beside them."""
    header, parts, at = {"__metadata__": dict(said)}, [], 0
    kinds = {np.dtype(kind): name for name, kind in KINDS.items() if name != "BF16"}
    for name, array in arrays.items():
        ends = [at, at + array.nbytes]
        header[name] = {"dtype": kinds[array.dtype], "shape": list(array.shape), "data_offsets": ends}
        parts.append(np.ascontiguousarray(array).tobytes())
        at = ends[1]
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
