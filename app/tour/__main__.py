"""`python -m app.tour lecture.pptx` writes a tour as slides, with films and speaker's notes."""

import logging
import sys
from importlib.util import find_spec
from pathlib import Path

from app.tour import slides
from app.tour.file import FOLDER, LECTURES, TourError, load, names
from engine.parser import Parser, ended, to_write

MISSING = "slides need python-pptx, playwright and av; they come with pip install '.[slides]'"


def main() -> int:
    """Make the slides, and say what they are made of while that goes on."""
    parser = Parser("app.tour", __doc__)
    parser.add_argument("out", type=to_write, help="the file to write, in PPTX")
    parser.add_argument("--tour", type=Path, help="a tour of one's own: a Markdown file")
    parser.add_argument(
        "--minutes", type=int, help=f"of the lecture: {LECTURES} in our first, default its usual"
    )
    parser.add_argument("--dark", action="store_true", help="light words on a dark ground")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # Streamlit misses a session at every call
    if not all(map(find_spec, ("pptx", "playwright", "av"))):
        parser.error(MISSING)
    try:
        name, folder = (given.tour.stem, given.tour.resolve().parent) if given.tour else (names()[0], FOLDER)
        tour = load(name, folder)
        minutes = given.minutes or tour.lectures[0]
        if minutes not in tour.lectures:
            must = f"it must be one of {', '.join(map(str, sorted(tour.lectures)))}"
            parser.error(f"minutes is {minutes}; {must}")
        with slides.camera(given.dark) as shoot:
            file = slides.made(tour, minutes, given.dark, shoot, lambda text: print(text, flush=True))
    except TourError as error:
        parser.error(str(error))
    given.out.write_bytes(file)
    print(f"{given.out}: {len(file) / 1e6:.1f} MB, a lecture of {minutes} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
