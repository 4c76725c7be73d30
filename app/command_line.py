"""What follows the two dashes: streamlit run app/main.py -- --kernel my_attention.py

A file is run because whoever started the dashboard named it there: no address and no widget can name another.
"""

import argparse
import os
import shlex
import sys
from functools import lru_cache
from pathlib import Path

import streamlit as st

from app import serving
from engine.decoded import FileError
from engine.problem import hardware


def kernel() -> Path | None:
    """The file of --kernel; None where there is no such flag."""
    file = _parsed(tuple(sys.argv[1:]))[0].kernel
    return file and file.absolute()


def check() -> None:
    """End with one sentence, and exit code 2, where a word is not known or no site can be named so."""
    known, unknown = _parsed(tuple(sys.argv[1:]))
    named = [(serving.EMBED, site) for site in known.embed]
    named += [(serving.EMBED_VARIABLE, site) for site in serving.embedders_of_environment()]
    wrong = [(where, site) for where, site in named if not serving.SITE.fullmatch(site)]
    if wrong:
        must = "it must be a site such as https://lms.example.org, without a path"
        said = f"{wrong[0][0]} is {wrong[0][1]!r:.80}; {must}."
    elif unknown:
        said = (
            f"The dashboard does not know {shlex.join(unknown)}: what may follow the two dashes is "
            f"--kernel FILE, --gpu FILE, {serving.EMBED} SITE and {serving.OPENED}."
        )
    elif not (said := _refused(known.gpu)):
        return
    print(said, file=sys.stderr)
    sys.exit(2)


def _refused(calibration: Path | None) -> str:
    """Why the file of --gpu is no GPU; offered it is to all that this process starts."""
    if calibration is not None:
        try:
            hardware.offer(calibration)
        except FileError as error:
            return f"--gpu is refused: {error}."
        os.environ[hardware.OWN] = str(calibration.absolute())
    return ""


@lru_cache(maxsize=8)
def _parsed(words: tuple[str, ...]) -> tuple[argparse.Namespace, list[str]]:
    """What the flags say, and the words that belong to none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--kernel", nargs="?", const="", type=Path)
    parser.add_argument("--gpu", nargs="?", const="", type=Path)
    parser.add_argument(serving.OPENED, action="store_true")
    parser.add_argument(serving.EMBED, nargs="?", const="", action="append", default=[])
    return parser.parse_known_args(words)


def refusal() -> str | None:
    """Why the file is not run, in one sentence; None where only this machine can reach the dashboard."""
    if not serving.on_network():
        return None
    address = st.get_option("server.address")
    where = f"at {address}" if address else "at every address of this machine"
    if serving.at_loopback(address):
        where = "behind a proxy"
    return (
        f"--kernel is refused, because the dashboard listens {where} and whoever reaches it could have the "
        "file run; start it with --server.address localhost, and without --server.allowedHosts."
    )
