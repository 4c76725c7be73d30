"""What a moving picture draws, packed into one block of bytes: a JSON header and little-endian arrays.

Layout: header length (uint32), the header (UTF-8 JSON, padded with spaces), then the arrays, each on an
8-byte boundary. The header's `arrays` lists name, dtype, offset from the header's end, and length of each;
its `palettes` has the colours of both themes.
"""

import json
from collections.abc import Mapping

import numpy as np

from app.figures.shared_tables import palettes


def pack(header: Mapping, arrays: Mapping[str, np.ndarray]) -> bytes:
    """One block of bytes out of a JSON-able header and one-dimensional arrays."""
    listing, parts, offset = [], [], 0
    for name, values in arrays.items():
        little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        padded = -little.nbytes % 8
        parts += [little.tobytes(), b"\0" * padded]
        listing.append([name, values.dtype.name, offset, len(values)])
        offset += little.nbytes + padded
    return b"".join([_headed({**header, "palettes": palettes(), "arrays": listing}), *parts])


def with_header(payload: bytes, **more) -> bytes:
    """The same payload, its header with more in it."""
    size = int.from_bytes(payload[:4], "little")
    return _headed({**json.loads(payload[4 : 4 + size]), **more}) + payload[4 + size :]


def _headed(header: Mapping) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return len(text).to_bytes(4, "little") + text
