"""What the page on the screen gives to take home: files it offers, and the scenario that it shows."""

from collections.abc import Callable

from app import scenario
from engine.experiment import Experiment

HTML, TRACE, CSV = "HTML", "Perfetto trace", "CSV"  # kinds of files
FILES = "files to take home"


def offer(title: str, make: Callable[[], str], kind: str = HTML) -> None:
    """Note what makes a file of something that this page shows."""
    scenario.kept_in_run(FILES, {})[title, kind] = make


def offered(kind: str) -> dict[str, Callable[[], str]]:
    """What this run of the page has offered as files of a kind, by title."""
    return {title: make for (title, each), make in scenario.kept_in_run(FILES, {}).items() if each == kind}


def set_subject(experiment: Experiment) -> Experiment:
    """Note what the page made of the scenario; who takes the page home gets that."""
    scenario.kept_in_run("subject", {})["experiment"] = experiment
    return experiment


def subject() -> Experiment:
    """What the page shows: the scenario, or what it made of it."""
    return scenario.kept_in_run("subject", {}).get("experiment") or scenario.current()
