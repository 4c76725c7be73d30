"""Commands that run beside the tests from the first on, once for all workers, and are looked at later.

The tests wait for a browser or a process about a quarter of their time: a minute of compiling fits in there.
A test file names its command as BESIDE, and the fixture `beside` waits for it. As a program,
`beside.py RUN FOLDER COMMAND...` runs a command, and ends it where RUN, the process of the tests, has ended.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 3600  # seconds


class Beside:
    """The commands of one run of the tests, with a folder that all its workers share."""

    def __init__(self, folder: Path, run: int):
        self.folder, self.run, self.commands = folder / "beside", run, {}
        self.folder.mkdir(exist_ok=True)

    def start(self, name: str, command: list) -> None:
        """Start a command, unless another worker has; on Windows it runs where it is waited for."""
        folder, self.commands[name] = self.folder / name, list(map(str, command))
        if os.name != "posix":
            return
        try:
            folder.mkdir()
        except FileExistsError:
            return
        environment = {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(folder / "triton")}
        program = [sys.executable, "-S", __file__, str(self.run), str(folder), *self.commands[name]]
        environment = {**os.environ, **environment}
        os.posix_spawn(sys.executable, program, environment)  # of a Popen Python complains if nobody waits

    def __call__(self, name: str) -> str:
        """What a command printed, when it has ended; AssertionError with its errors where it failed."""
        if os.name != "posix":
            return subprocess.check_output(self.commands[name], cwd=ROOT, text=True)
        folder, until = self.folder / name, time.monotonic() + LONGEST
        while not (folder / "ended").exists():
            assert time.monotonic() < until, f"{name} takes longer than {LONGEST} seconds"
            time.sleep(0.05)
        errors = (folder / "errors").read_text("utf-8")
        assert (folder / "ended").read_text() == "0", errors[-4000:]
        return (folder / "printed").read_text("utf-8")


def runs(process: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def main(run: str, name: str, *command: str) -> None:
    """Run the command, its output in files, and write last how it ended."""
    folder = Path(name)
    os.setsid()
    os.chdir(ROOT)
    with (folder / "printed").open("w") as printed, (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, stdout=printed, stderr=errors)
    while process.poll() is None:
        if not runs(int(run)):
            os.killpg(0, signal.SIGKILL)  # the command, what it started, and this
        time.sleep(0.1)
    (folder / "ending").write_text(str(process.returncode))
    (folder / "ending").rename(folder / "ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
