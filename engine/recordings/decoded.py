"""Values of `recording`'s types from JSON that may come from a stranger.

Nothing is trusted: every field is checked against its type, nothing in it is executed, and whatever is wrong
becomes one sentence (RecordingError) that names the place.
"""

import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from engine.experiment import Experiment, ExperimentError
from engine.problem.problem import Problem
from engine.recordings.cluster import ClusterTimeline, ClusterTiming, Extent, GpuMarks
from engine.recordings.recording import TracedCall
from engine.recordings.samples import MOST_SAMPLES, Samples
from engine.recordings.timelines import traced_fault
from engine.recordings.timing import INPUTS, NUMBERS, TERMS, Decoding, Fp8Timing, Times, VariantTiming

MEASURED = ("kernels", "marks", "times")  # what a row has, or the reason why not
RULES = (  # the records that must keep it, what must hold, and what is said where it does not
    (
        Times,
        lambda one: 0 < one.p20 <= one.p50 <= one.p80,
        "has percentiles that are not positive and rising",
    ),
    (
        Extent,
        lambda one: 0 < one.least <= one.median <= one.most,
        "has times that are not positive and rising",
    ),
    (GpuMarks, lambda one: one.possible, "has marks that cannot be"),
    (ClusterTiming | ClusterTimeline, lambda one: one.gpus >= 1, "must have at least one GPU"),
    (ClusterTimeline, lambda one: len(one.marks) in (0, one.gpus), "must have marks of every GPU"),
    (
        Fp8Timing,
        lambda one: one.numbers in NUMBERS and one.inputs in INPUTS,
        f"must have numbers of {', '.join(NUMBERS)}, and inputs of {', '.join(INPUTS)}",
    ),
    (
        VariantTiming,
        lambda one: one.term in (None, *TERMS),
        f"has a term that is not known: it must be one of {', '.join(TERMS)}",
    ),
    (
        Decoding,
        lambda one: (one.times is None) == (one.bytes_per_second is None),
        "must have bytes per second where it has times",
    ),
    (
        Samples,
        lambda one: one.possible,
        f"must have at most {MOST_SAMPLES:,} samples of at least 0, alike of each kind",
    ),
)
COMPUTED = {"tflops"}  # said by earlier files, too, and not looked at
LONGEST_TEXT = 600
LARGEST_NUMBER = 10**18
# Markdown's links and pictures, references to them, tags, and addresses that become links by themselves
ELSEWHERE = re.compile(
    r"!?\[[^\]]*\]\s*[(\[:]|<[a-zA-Z/!?][^<>]*>|\w+:/\s*/|\bwww\.|\bmailto:", re.IGNORECASE
)


hints_of = cache(get_type_hints)


class RecordingError(ValueError):
    """Why a file is no recording that can be shown, in one sentence."""


def decoded(kind: Any, value: Any, where: str) -> Any:
    """A value of this type from its JSON; raises RecordingError naming the place."""
    if is_dataclass(kind):
        return _record(kind, value, where)
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [kind for kind in arguments if isinstance(value, list) == (get_origin(kind) is tuple)]
        none = value is None and types.NoneType in arguments
        return None if none else decoded((kinds or arguments)[0], value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise RecordingError(f"{where} must be a list")
        if arguments[0] is int:  # tens of thousands of them
            if not all(type(each) is int and abs(each) <= LARGEST_NUMBER for each in value):
                raise RecordingError(f"{where} must be whole numbers up to {LARGEST_NUMBER:.0e}")
            return tuple(value)
        return tuple(decoded(arguments[0], item, f"{where} {i + 1}") for i, item in enumerate(value))
    if get_origin(kind) is Mapping:
        if not isinstance(value, dict):
            raise RecordingError(f"{where} must be an object")
        return types.MappingProxyType(
            {_text(key, where): decoded(arguments[1], item, where) for key, item in value.items()}
        )
    if kind is str:
        return _text(value, where)
    if kind is bool:
        if not isinstance(value, bool):
            raise RecordingError(f"{where} must be true or false")
        return value
    return _number(kind, value, where)


def _record(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise RecordingError(f"{where} must be an object")
    hints = hints_of(kind)
    if unknown := set(value) - set(hints) - COMPUTED:
        raise RecordingError(f"{where} has {min(unknown)[:40]!r}, which this version does not know")
    given = {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = decoded(hints[field.name], value[field.name], f"{field.name} of {where}")
        elif field.default is MISSING:
            raise RecordingError(f"{where} lacks {field.name}")
    record = kind(**given)
    if fault := _fault(record):
        raise RecordingError(f"{where} {fault}")
    return record


def _fault(record: Any) -> str | None:
    """What is wrong with values that each have the right type."""
    measured = next((name for name in MEASURED if hasattr(record, name)), None)
    if measured and bool(getattr(record, measured)) == (record.skipped is not None):
        return f"must have either {measured} or the reason why it has none"
    for kind, holds, sentence in RULES:
        if isinstance(record, kind) and not holds(record):
            return sentence
    if isinstance(record, TracedCall):
        return traced_fault(record)
    try:
        if isinstance(record, Problem):
            Experiment(problem=record)
        elif isinstance(record, Decoding):
            Experiment(problem=record.problem).changed(block_q=record.block_q, block_kv=record.block_kv)
    except ExperimentError as error:
        return (
            f"{'is not a problem' if isinstance(record, Problem) else 'has blocks that cannot be'}: {error}"
        )
    return None


def leads_elsewhere(text: str) -> str:
    """The first link, picture, address or tag in a text that a page may show as Markdown; empty for none."""
    found = ELSEWHERE.search(text)
    return found[0] if found else ""


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise RecordingError(f"{where} must be one line of at most {LONGEST_TEXT} characters")
    if leads_elsewhere(value):
        raise RecordingError(f"{where} must hold no link, picture, address or tag")
    return value


def _number(kind: type, value: Any, where: str) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and (kind is int or not isinstance(value, float)):
        raise RecordingError(f"{where} must be a {'whole ' if kind is int else ''}number")
    if not 0 <= value <= LARGEST_NUMBER:
        raise RecordingError(f"{where} must be from 0 to {LARGEST_NUMBER:.0e}")
    return kind(value)
