"""`python -m app.gallery --out site/` writes the gallery."""

import logging
import sys
from pathlib import Path
from urllib.parse import parse_qsl

from app.gallery.site import site
from engine.experiment import Experiment
from engine.parser import Parser, ended, heads


def main() -> int:
    """Write every file of the site, and say how many there are and how large they are."""
    parser = Parser("app.gallery", __doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to; it is made")
    parser.add_argument("--scenario", help="of every picture, as an address has it: 'seq=4096&causal=true'")
    parser.add_argument(
        "--heads", type=heads, help="q, k and v that every picture shows: .npz or .safetensors"
    )
    parser.add_argument("--tour", type=Path, help="a tour of one's own: a Markdown file")
    given = parser.parse_args()
    out = given.out
    logging.disable(logging.WARNING)  # Streamlit misses a session at every call
    size = 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        asked = given.scenario is not None or given.heads is not None
        values = dict(parse_qsl(given.scenario or ""))
        values |= {"inputs": given.heads} if given.heads else {}
        scenario = Experiment.of(**values) if asked else None
        for name, text in site(scenario, given.tour).items():
            size += (out / name).write_text(text, "utf-8", newline="\n")
    except ValueError as error:  # of the scenario, or the tour
        parser.error(str(error))
    except OSError as error:
        parser.error(f"out is {out}; it must be a folder that can be written to ({error.strerror})")
    files = len(list(out.glob("*.html")))
    print(f"{files} files, {size / 1e6:.1f} million characters: open {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
