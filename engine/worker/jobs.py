"""What a job of the worker process is made of: updates that it yields, and errors for a visitor to read."""

from dataclasses import dataclass
from typing import Any

from engine.root import Refusal


class JobError(Refusal):
    """Why a job cannot give a result, in one sentence for the page or the command line."""


class LostError(JobError):
    """The end of a job whose process is of no more use: the GPU failed it, and would fail the next one."""


@dataclass(frozen=True)
class Update:
    """How far a job is, and a partial result where there is one."""

    fraction: float  # 0 to 1
    message: str  # what happens now
    row: dict[str, Any] | None = None  # a finished part of the result
