"""Where the repository lies, which processes are started in and read from, and what a refusal is."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Refusal(Exception):  # noqa: N818 - the word for what it is
    """Why something cannot be done, in one sentence for a page or the command line."""
