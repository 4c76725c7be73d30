"""What can be known before a lecture: `python -m app.room --check` says what works here and what will not."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator

from app.room import server
from engine.measuring.machine import machine
from engine.recordings.file import recordings
from engine.worker.jobs import JobError

NARROW = 1024, 768  # pixels of a projector below which pictures are cut
FACES = ("DejaVu Sans", "Segoe UI", "Helvetica", "Arial", "Noto Sans", "Liberation Sans")
LOOK = "look"  # of a line that somebody should look after


def lines(address: str, port: int, dashboard_port: int) -> Iterator[tuple[str, str]]:
    """Lines, each "good" or LOOK, and a sentence."""
    yield from _network(address, port, dashboard_port)
    yield from _screen()
    yield from _machine()


def _network(address: str, port: int, dashboard_port: int) -> Iterator[tuple[str, str]]:
    reach = "machine" if address == server.EVERYWHERE else server.reach(address)  # it is in no network
    yield ("good" if reach == "network" else LOOK), f"{address}: {server.SAID[reach]}"
    for name, where, number in (("room", address, port), ("dashboard", "127.0.0.1", dashboard_port)):
        try:
            with server.listen(where, number) as listener:
                listener.settimeout(2)
                with socket.create_connection(listener.getsockname()[:2], 2):
                    yield "good", f"Port {listener.getsockname()[1]} is free for the {name}, and answers."
        except OSError as error:
            yield LOOK, f"Port {number} cannot serve the {name}: {error.strerror or error}."
    yield LOOK, "A Wi-Fi may keep its devices apart, or a firewall close the port: only a phone can tell."


def _screen() -> Iterator[tuple[str, str]]:
    try:
        import tkinter

        root = tkinter.Tk()
        size = root.winfo_screenwidth(), root.winfo_screenheight()
        root.destroy()
    except Exception:  # without a screen, or without the package: each system has an error of its own
        yield LOOK, "The screen's size cannot be read from here: presented pages need 1,024 × 768 pixels."
    else:
        enough = size[0] >= NARROW[0] and size[1] >= NARROW[1]
        yield ("good" if enough else LOOK), f"This screen has {size[0]:,} × {size[1]:,} pixels."
    if shutil.which("fc-list"):
        found = subprocess.run(["fc-list", ":", "family"], capture_output=True, text=True, check=False).stdout
        there = [face for face in FACES if face in found]
        told = f"Type is set in {there[0]}." if there else f"None of {', '.join(FACES)} is installed."
        yield ("good" if there else LOOK), told


def _machine() -> Iterator[tuple[str, str]]:
    yield "good", f"{os.cpu_count()} processor cores; {len(recordings())} recordings of GPUs come along."
    try:
        found = machine()
    except JobError as error:
        yield LOOK, f"No kernel runs here: {error}."
        return
    told = f"on {found.device}" if found.cuda else "in Triton's interpreter: there is no GPU"
    yield "good", f"Kernels run {told}."
