"""What the records of a recording must keep, beside the types of their fields."""

from typing import Any

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


def fault_of(record: Any) -> str | None:
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
