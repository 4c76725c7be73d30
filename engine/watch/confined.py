"""A process that anybody's file may run in: what it starts ends with it, and what it may reach is little.

What the system has for that is used, and what it lacks is told: namespaces for processes and the network,
Landlock for writing to the disk, control groups for memory. Only Linux has them.
"""

import ctypes
import os
import signal
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

DEATH_SIGNAL, NO_NEW_PRIVILEGES, SUBREAPER = 1, 38, 36  # of prctl
NEW_SPACES, NEW_MOUNTS = 0x10000000 | 0x20000000 | 0x40000000 | 0x08000000, 0x00020000  # user, PIDs, net, IPC
PRIVATE, QUIET = 0x4000 | 0x40000, 2 | 4 | 8  # of mount: to all below; neither set-uid, devices nor programs
SET_MOUNT, ALL_BELOW, READ_ONLY = (
    442,
    0x8000,
    1,
)  # mount_setattr, which keeps modes and times as they are, too
CREATE, ADD, RESTRICT = 444, 445, 446  # Landlock's calls
WRITING = ((1, 0x1FF2), (2, 0x2000), (3, 0x4000), (5, 0x8000))  # what writes, by the version that knows of it
CONNECTING, OUTSIDE = (4, 0b11), (6, 0b11)  # TCP; signals, and sockets that have no place on the disk
WRITE_FILE, BENEATH = 2, 1  # Landlock's right, and its kind of rule
GROUPS = {"": "memory.max", "memory": "memory.limit_in_bytes"}  # the limit, by how /proc/self/cgroup names it
SCRATCH = "/dev/shm"
CONTROL = Path("/sys/fs/cgroup")
MOST_PROCESSES = 256
ENDING_SECONDS = 5.0  # that may pass until all that was started is gone
MISSING = {
    "namespaces": "seeing other processes and the network",
    "Landlock": "writing to the disk",
    "control groups": "holding more memory in several processes than in one",
}


def missing_sentence(missing: list[str]) -> str:
    """What a file is not kept from here."""
    return f"This system does not keep a file from {', or from '.join(MISSING[each] for each in missing)}."


def guarded(memory: int, parent: int) -> list[str]:
    """Go on in a process that this one guards, and say what the system lacks for that.

    The guard never returns: it ends as its child has ended, when all that the child started is gone.
    memory: bytes that they may all hold together; parent: who asked, with whom all this ends.
    """
    end_with(parent)
    _libc().prctl(SUBREAPER, 1, 0, 0, 0)
    os.environ.pop("TMPDIR", None)
    group, apart = _group(memory), _apart()
    reading, writing = os.pipe()
    if child := os.fork():
        os.close(writing)
        _guard(child, reading if apart else None, group)
    end_with(None)
    os.close(reading)
    if group and not _written({group / "cgroup.procs": "0"}):
        group = None
    if apart:
        _begin(writing)
    os.close(writing)
    return [name for name, there in (("namespaces", apart), ("control groups", group)) if not there]


def end_with(parent: int | None) -> None:
    """Let this process end when its parent has, since nobody waits for its answer then."""
    _libc().prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:  # gone before that
        os.kill(os.getpid(), signal.SIGKILL)


def kept_from_writing() -> list[str]:
    """Let this process write nothing to the disk, connect to nobody and signal no other; what is lacking."""
    libc = _libc()
    version = libc.syscall(CREATE, None, 0, 1)
    rights = [
        sum(right for since, right in each if version >= since) for each in (WRITING, [CONNECTING], [OUTSIDE])
    ]
    asked = struct.pack("QQQ", *rights)[: 8 * (1 + (version >= 4) + (version >= 6))]
    rules = libc.syscall(CREATE, asked, len(asked), 0) if version > 0 else -1
    if rules < 0:
        return ["Landlock"]
    scratch = {SCRATCH: rights[0]} if os.environ.get("TMPDIR") == SCRATCH else {}
    for place, right in {os.devnull: WRITE_FILE, **scratch}.items():
        at = os.open(place, os.O_PATH)
        libc.syscall(ADD, rules, BENEATH, struct.pack("=Qi", right, at), 0)
        os.close(at)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    done = libc.syscall(RESTRICT, rules, 0) == 0
    os.close(rules)
    return [] if done else ["Landlock"]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _group(memory: int) -> Path | None:
    """A control group that may hold so many bytes; None where this process may make none."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, place = line.split(":", 2)
            for above in (CONTROL / kind / place.lstrip("/"), CONTROL / kind) if kind in GROUPS else ():
                for left in above.glob("watched-*"):  # by a guard that was killed
                    if not Path("/proc", left.name.partition("-")[2]).exists():
                        with suppress(OSError):
                            left.rmdir()
                group = above / f"watched-{os.getpid()}"
                with suppress(OSError):
                    group.mkdir()
                    _written({group / "pids.max": MOST_PROCESSES})
                    if _written({group / GROUPS[kind]: memory}):
                        return group
                    group.rmdir()
    return None


def _apart() -> bool:
    """Whether from now on children are in namespaces of their own: no others' processes, and no network."""
    user, group = os.getuid(), os.getgid()
    if _libc().unshare(NEW_SPACES):
        return False
    own = Path("/proc/self")
    maps = {"uid_map": f"{user} {user} 1", "setgroups": "deny", "gid_map": f"{group} {group} 1"}
    _written({own / name: said for name, said in maps.items()})
    return True


def _written(said: dict[Path, str | int]) -> bool:
    """Write into files that the system has; whether it takes it."""
    try:
        for place, what in said.items():
            place.write_text(str(what))
    except OSError:
        return False
    return True


def _begin(writing: int) -> None:
    """As the first process of a namespace, with which all others end: go on in a second, and tell its end."""
    libc = _libc()
    if not libc.unshare(NEW_MOUNTS):
        libc.mount(None, b"/", None, PRIVATE, None)
        libc.mount(b"proc", b"/proc", b"proc", QUIET, None)
        libc.syscall(SET_MOUNT, -100, b"/", ALL_BELOW, struct.pack("QQQQ", READ_ONLY, 0, 0, 0), 32)
        if not libc.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", QUIET, b"size=64m"):
            os.environ["TMPDIR"] = SCRATCH  # of its own: it goes with the namespace
    second = os.fork()
    if not second:
        return
    while (ended := os.wait())[0] != second:
        pass
    os.write(writing, str(ended[1]).encode())
    os._exit(0)


def _guard(child: int, reading: int | None, group: Path | None) -> NoReturn:
    """Wait for the child, end what it has left behind, and end as it did; or at once, where that is asked."""

    def stop(*_) -> NoReturn:
        _end_all(group)
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    _, status = os.waitpid(child, 0)
    told = os.read(reading, 20) if reading is not None else b""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_all(group)
    code = os.waitstatus_to_exitcode(int(told) if told else status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))


def _end_all(group: Path | None) -> None:
    """Kill all that is below this process or in the group; what loses its parent comes to be its child."""
    until = time.monotonic() + ENDING_SECONDS
    while (left := _children() | _members(group)) and time.monotonic() < until:
        for process in left:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
    if group:
        with suppress(OSError):
            group.rmdir()


def _children() -> set[int]:
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                found.add(int(place.name))
    return found


def _members(group: Path | None) -> set[int]:
    with suppress(OSError):
        return set(map(int, (group / "cgroup.procs").read_text().split())) if group else set()
    return set()
