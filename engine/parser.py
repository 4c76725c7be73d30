"""What every command line of the project has in common: one line for an error, the options of a scenario."""

import argparse
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NoReturn

from engine.experiment import PARAMETERS
from engine.problem.heads import Heads, HeadsError, read, typed

SWITCHES = {  # what is so where one is given
    "causal": "no key after the query",
    "sinks": "a logit without a key in the softmax of each head",
    "slopes": "scores fall with the distance of query and key (ALiBi)",
    "latent": "V is the first numbers of K (MLA)",
}
HEADS = "q, k and v: a file (.npz, .safetensors), or a layer, a head and a text, as text:3.1:It is"
MOST_SECONDS = 86_400.0  # a day
INTERRUPTED = 130  # the exit code of what Ctrl+C ends, as shells have it


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line on stderr and exit code 2; options are not abbreviated."""

    def __init__(self, command: str, description: str | None):
        super().__init__(prog=f"python -m {command}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """End with one line that names what was wrong."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")

    def scenario(self, names: Collection[str] = PARAMETERS) -> None:
        """Add an option for each of these values that an experiment has."""
        for parameter in (PARAMETERS[name] for name in names):
            option = "--" + parameter.name.replace("_", "-")
            if parameter.name == "inputs":
                self.add_argument(option, metavar="FILE", type=heads, help=HEADS)
            elif parameter.is_switch:
                self.add_argument(
                    option, action="store_const", const="true", help=SWITCHES.get(parameter.name)
                )
            else:
                self.add_argument(option, metavar="VALUE", help=parameter.must)


def heads(text: str) -> Heads:
    try:
        if text.startswith("text:"):
            return typed(text)
        return read(text)
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"it is {text!r:.60}, which cannot be read: {error.strerror}"
        ) from None
    except HeadsError as error:
        raise argparse.ArgumentTypeError(f"{error}") from None


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"it is {text!r:.60}; it must be a whole number") from None


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MOST_SECONDS:
        must = f"a number of seconds above 0, at most {MOST_SECONDS:,.0f}"
        raise argparse.ArgumentTypeError(f"it is {text!r:.60}; it must be {must}")
    return value


def to_write(text: str) -> Path:
    """A file that can be written, which is asked before the work that fills it."""
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"it is {text!r}, which cannot be written")
    return path


def ended(main: Callable[[], int | None]) -> int:
    """The exit code of a command line's main: Ctrl+C, and a reader who has seen enough, are no errors."""
    try:
        code = main() or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
