"""A process that anybody's file may run in: it starts no other, and what it may reach is little.

It is forked from one that has imported all that is large. Linux has what keeps it to itself: limits, Landlock
for writing to the disk, seccomp for the rest. What the system lacks is told.
"""

import ctypes
import json
import os
import signal
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from errno import ENOSYS, ENOTTY, EPERM
from pathlib import Path
from typing import Any

from engine.process_tree import end_with
from engine.watch.user_file import NotServedError

LARGEST, MOST_FILES = 16 * 2**20, 64  # bytes of a file, an answer too, and how many are open at once
LOOKED_EVERY = 0.01  # s
NO_NEW_PRIVILEGES = 38  # of prctl
NO_CAPABILITIES = struct.pack("Ii", 0x20080522, 0), bytes(24)
NEW_SPACES = 0x10000000 | 0x20000  # user and mounts
SCRATCH, SCRATCH_SIZE = "/dev/shm", b"size=64m"
CREATE, ADD, RESTRICT = 444, 445, 446  # Landlock's calls
WRITING = ((1, 0x1FF2), (3, 0x4000), (5, 0x8000))  # what writes, by the version that knows of it
WRITE_FILE, BENEATH = 2, 1  # Landlock's right, and its kind of rule
NO_REPORT = "it answers with something that is not a report"
ALLOW, REFUSE, OTHER_THAN, MASKED = 0x7FFF0000, 0x50000, 1, 7  # of seccomp: actions, and comparisons
THREAD = 0x10000  # of clone
FORBIDDEN = (
    "fork vfork execve execveat unshare setns setsid setpgid prctl "  # another process, or a life of its own
    "tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal pidfd_getfd "  # reaching others
    "ptrace process_vm_readv process_vm_writev process_madvise kcmp perf_event_open bpf userfaultfd "
    "setpriority ioprio_set sched_setaffinity sched_setscheduler sched_setparam sched_setattr "
    "socket io_uring_setup keyctl add_key request_key "  # the network
    "memfd_create memfd_secret shmget semget msgget mq_open "  # memory that is not counted, or stays
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat "  # what
    "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr"  # Landlock leaves
)
OWNER, OWNER_EX = 8, 15  # of fcntl: who gets a file's signals
LACKING = {
    "Landlock": "writing to the disk",
    "seccomp": "starting other processes, stopping them, or reaching the network",
}


def answer_of(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """What work gives as `found` in a process that is forked for it; else a sentence on why there is nothing.

    Whatever has come from there may have been written by what ran there. What the system does not keep it
    from is added to its `notes`.
    """
    with tempfile.TemporaryFile() as file:
        parent = os.getpid()
        if not (child := os.fork()):
            _answer(work, file, parent)
        until = time.monotonic() + seconds
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return understood(b"", -signal.SIGALRM, seconds)
            time.sleep(LOOKED_EVERY)
        file.seek(0)
        return understood(file.read(), os.waitstatus_to_exitcode(ended[1]), seconds)


def understood(answer: bytes, code: int, seconds: float) -> dict[str, Any]:
    """The answer of a process that has ended so, or had so many seconds; a sentence where it gave none."""
    sentence = NO_REPORT
    if code == -signal.SIGALRM:
        sentence = f"it still runs after {seconds:g} s, and was ended: its loop may be endless"
    elif code < 0:
        name = {each.value: each.name for each in signal.Signals}.get(-code, -code)
        sentence = f"it ended Python by signal {name}: its memory, or a crash"
    elif code or not answer:
        sentence = f"it ended Python with exit code {code}"
    else:
        with suppress(ValueError, RecursionError):
            found = json.loads(answer)
            return found if isinstance(found, dict) else {"sentence": sentence}
    return {"sentence": sentence}


def told(name: str, work: Callable[[], dict[str, Any]]) -> str:
    """What work gives as JSON under a name, or why it gives nothing as a sentence."""
    try:
        return json.dumps({name: work()})
    except NotServedError as error:
        return json.dumps({"sentence": str(error)})
    except MemoryError:
        return json.dumps({"sentence": "it needs more memory than it may use"})


def limit(memory: int) -> None:
    """Limit what comes on top of what is imported: shared memory too, and what is left of it in files."""
    import resource

    status = Path("/proc/self/status").read_text()
    held = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmSize"))
    limits = {"AS": held + memory, "FSIZE": LARGEST, "NOFILE": MOST_FILES, "CORE": 0}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def _answer(work: Callable[[], dict[str, Any]], file, parent: int) -> None:
    """Do work, write what it gives to a file, and leave without what else may have been asked for."""
    code = 1
    try:
        lacking = confine(file.fileno(), parent)
        said = told("found", lambda: (found := work()) | {"notes": lacking + found["notes"]})
        file.seek(0)
        file.truncate()
        file.write(said.encode())
        file.flush()
        code = 0
    finally:
        os._exit(code)


def confine(answer: int, parent: int) -> list[str]:
    """Leave this process nothing but itself and one open file; a sentence on what the system lacks for it."""
    libc = ctypes.CDLL(None)
    nothing = os.open(os.devnull, os.O_RDWR)
    for place in range(3):
        os.dup2(nothing, place)
    os.closerange(3, answer)
    os.closerange(answer + 1, 2**16)
    scratch = _scratch(libc)
    end_with(parent)
    libc.capset(*NO_CAPABILITIES)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    done = {"Landlock": _kept_from_writing(libc, scratch), "seccomp": _alone()}
    missing = [LACKING[name] for name, there in done.items() if not there]
    return [f"This system does not keep a file from {', or from '.join(missing)}."] if missing else []


def _scratch(libc: ctypes.CDLL) -> list[str]:
    """A folder for temporary files, in memory of this process's own; none where there are no namespaces."""
    user, group = os.getuid(), os.getgid()
    with suppress(OSError):
        if not libc.unshare(NEW_SPACES):
            maps = {"uid_map": f"{user} {user} 1", "setgroups": "deny", "gid_map": f"{group} {group} 1"}
            for name, said in maps.items():
                Path("/proc/self", name).write_text(said)
            if not libc.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", 0, SCRATCH_SIZE):
                tempfile.tempdir = os.environ["TMPDIR"] = SCRATCH
                return [SCRATCH]
    return []


def _kept_from_writing(libc: ctypes.CDLL, folders: list[str]) -> bool:
    """Whether this process writes nothing to the disk from now on, but to these folders."""
    version = libc.syscall(CREATE, None, 0, 1)
    rights = sum(right for since, right in WRITING if version >= since)
    rules = libc.syscall(CREATE, struct.pack("Q", rights), 8, 0) if version > 0 else -1
    if rules < 0:
        return False
    for place, right in {os.devnull: WRITE_FILE, **dict.fromkeys(folders, rights)}.items():
        at = os.open(place, os.O_PATH)
        libc.syscall(ADD, rules, BENEATH, struct.pack("=Qi", right, at), 0)
        os.close(at)
    done = libc.syscall(RESTRICT, rules, 0) == 0
    os.close(rules)
    return done


def _alone() -> bool:
    """Whether this process starts and reaches no other from now on."""
    try:
        seccomp = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(ALLOW))

    def refuse(name: str, *argument: int, error: int = EPERM) -> None:
        """Refuse a call; argument: only where that of a number compares so with a value, or two."""
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if_so = struct.pack("IIQQ", *argument) if argument else None
        seccomp.seccomp_rule_add_array(rules, REFUSE | error, number, len(argument) // 4, if_so)

    for name in FORBIDDEN.split():
        refuse(name)
    refuse("clone", 0, MASKED, THREAD, 0)
    refuse("clone3", error=ENOSYS)  # whose flags cannot be seen: clone is called instead
    refuse("ioctl", error=ENOTTY)
    refuse("prlimit64", 0, OTHER_THAN, 0, 0)
    for name in ("kill", "tgkill"):
        refuse(name, 0, OTHER_THAN, os.getpid(), 0)
    for whose in (OWNER, OWNER_EX):
        refuse("fcntl", 1, MASKED, 2**32 - 1, whose)
    return not seccomp.seccomp_load(rules)
