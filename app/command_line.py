"""What follows the two dashes: streamlit run app/main.py -- --kernel my_attention.py

A file is run because whoever started the dashboard named it there: no address and no widget can name another.
"""

from __future__ import annotations

import argparse
import sys
from functools import lru_cache
from pathlib import Path

import streamlit as st

from app import serving


def kernel() -> Path | None:
    """The file of --kernel; None where there is no such flag."""
    return _kernel(tuple(sys.argv[1:]))


@lru_cache(maxsize=8)
def _kernel(words: tuple[str, ...]) -> Path | None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--kernel", nargs="?", const="", type=Path)
    file = parser.parse_known_args(words)[0].kernel
    return None if file is None else file.absolute()


def refusal() -> str | None:
    """Why the file is not run, in one sentence; None where only this machine can reach the dashboard."""
    address = st.get_option("server.address")
    if serving.at_loopback(address):
        return None
    where = f"at {address}" if address else "at every address of this machine"
    return (
        f"--kernel is refused, because the dashboard listens {where} and whoever reaches it could have the "
        "file run; start it with --server.address localhost."
    )
