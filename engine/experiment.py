"""What is asked: one attention problem, algorithm, tiling and GPU. All validation lives here, once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from engine.algorithms import ALGORITHMS, Algorithm
from engine.problem.hardware import GPUS, Gpu
from engine.problem.problem import DTYPE_BYTES, Mask, Problem, Tiling

LARGEST_SEQUENCE = 2**20
SMALLEST_BLOCK = 16
LARGEST_BLOCK = 1024
BLOCKS = ("block_q", "block_kv")
HASH = "its hash"  # in what an experiment keeps beside its values


class ExperimentError(ValueError):
    """One field has a value it must not have; the message names the field, the value and what it must be."""

    def __init__(self, name: str, value: object, must: str):
        super().__init__(f"{name} is {value}; it must be {must}")
        self.field, self.value, self.must = name, value, must


@dataclass(frozen=True)
class Experiment:
    """One point of the space that the dashboard, the command line and Python explore.

    Attributes:
        problem: what is computed.
        algorithm: the key of its record, see `engine.algorithms`.
        asked: the tiling asked for; links and sliders hold it. `tiling` is what runs.
        hardware: the key of a preset, see `engine.problem.hardware`.
    """

    problem: Problem = Problem()
    algorithm: str = "flash2"
    asked: Tiling = Tiling()
    hardware: str = "h200"

    def __post_init__(self):
        for parameter in PARAMETERS:
            parameter.check(parameter.get(self))
        if self.problem.heads % self.problem.kv_heads:
            must = f"a divisor of heads, which is {self.problem.heads}"
            raise ExperimentError("kv_heads", self.problem.kv_heads, must)
        lengths, keys = self.problem.mask.documents, self.problem.seq_kv
        if not isinstance(lengths, int) and sum(lengths) != keys:
            must = f"a number of documents, or lengths that add up to seq_kv, which is {keys}"
            raise ExperimentError("documents", _shown(self.problem.mask.documents_text()), must)

    def __hash__(self) -> int:
        """Kept, as hundreds of results are looked up by it in a run of a page."""
        kept = vars(self)
        if HASH not in kept:
            kept[HASH] = hash((self.problem, self.algorithm, self.asked, self.hardware))
        return kept[HASH]

    def __getstate__(self) -> dict[str, Any]:
        """All but the hash: in another process the same names have others."""
        return {name: value for name, value in vars(self).items() if name != HASH}

    @cached_property
    def tiling(self) -> Tiling:
        """The tiling that runs: as asked, unless the algorithm takes its own."""
        return self.record.tiling(self.problem, self.asked)

    @property
    def record(self) -> Algorithm:
        """What is true of its algorithm alone."""
        return ALGORITHMS[self.algorithm]

    @property
    def unserved(self) -> str | None:
        """Why the algorithm's kernel does not run this on the GPU, in one sentence; None where it does."""
        return self.record.unserved(self.problem, self.gpu)

    @property
    def gpu(self) -> Gpu:
        """The preset that `hardware` names."""
        return GPUS[self.hardware]

    @classmethod
    def of(cls, /, **values: Any) -> Experiment:
        """Build from flat values, named as in the URL and on the command line; raises ExperimentError."""
        for name in values:
            if name not in BY_NAME:
                raise ExperimentError(name, values[name], f"left out: known are {', '.join(BY_NAME)}")
        given = {name: value for name, value in values.items() if value is not None}
        flat = {p.name: given.get(p.name, p.default) for p in PARAMETERS}
        for parameter in PARAMETERS:
            flat[parameter.name] = parameter.parse(flat[parameter.name])
        if flat["kv_heads"] is None:
            flat["kv_heads"] = flat["heads"]
        if flat["seq_kv"] is None:
            flat["seq_kv"] = flat["seq"]
        return cls(
            problem=Problem(
                **{
                    name: flat[name] for name in ("batch", "heads", "kv_heads", "seq_kv", "head_dim", "dtype")
                },
                seq_q=flat["seq"],
                mask=_mask(flat["causal"], flat["window"], flat["documents"]),
            ),
            algorithm=flat["algorithm"],
            asked=Tiling(**{name: flat[name] for name in ("block_q", "block_kv", "splits", "stages")}),
            hardware=flat["hardware"],
        )

    @classmethod
    def lenient(cls, values: Mapping[str, str]) -> tuple[Experiment, tuple[ExperimentError, ...]]:
        """Build from a URL's values: each bad one is reported and replaced by its default."""
        kept, errors = dict(values), []
        while True:
            try:
                return cls.of(**kept), tuple(errors)
            except ExperimentError as error:
                errors.append(error)
                del kept[error.field]

    def flat(self) -> dict[str, Any]:
        """The flat values, as `of` takes them: what was asked."""
        return {parameter.name: parameter.get(self) for parameter in PARAMETERS}

    def changed(self, /, **values: Any) -> Experiment:
        """The same with some flat values replaced; a kernel keeps its own tiling until it is given blocks."""
        flat, mask, keys = self.flat(), self.problem.mask, values.get("seq_kv")
        if isinstance(mask.documents, tuple) and isinstance(keys, int) and keys > 0:
            flat["documents"] = mask.resized(keys, self.problem.seq_kv).documents_text()
        changed = Experiment.of(**{**flat, **values})
        return changed.in_own_tiling() if self.asked.own and not {*BLOCKS} & {*values} else changed

    def in_own_tiling(self) -> Experiment:
        """The same experiment with the blocks that the algorithm's kernel takes when it is given none."""
        return replace(self, asked=replace(self.asked, own=self.record.own_tiling is not None))


def _whole(name: str, rule: str) -> Callable[[Any], int | None]:
    def parse(value: Any) -> int | None:
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        text = str(value).strip()
        if not re.fullmatch(r"-?[0-9]+|-?[0-9]{1,3}([_,][0-9]{3})+", text) or len(text) > 18:
            raise ExperimentError(name, _shown(value), rule)
        return int(text.replace("_", "").replace(",", ""))

    return parse


def _numbers(name: str, rule: str) -> Callable[[Any], int | str | None]:
    """A whole number, or several with : or , between them, which stay text with : between them."""
    whole = _whole(name, rule)

    def parse(value: Any) -> int | str | None:
        text = str(value).replace(" ", "")
        if isinstance(value, tuple | list):  # one alone gets an empty one beside it
            text = ":".join(map(str, [*value, 0][: max(2, len(value))]))
        if not re.fullmatch(r"[0-9]+([:,][0-9]+)+", text):
            return whole(value)
        parts = re.split("[:,]", text)
        if any(len(part) > len(str(LARGEST_SEQUENCE)) for part in parts):
            raise ExperimentError(name, _shown(value), rule)
        return ":".join(str(int(part)) for part in parts)

    return parse


def _mask(causal: bool, window: int | str | None, documents: int | str) -> Mask:
    """The mask of flat values; a pair of keys before and after is a window with what it shows ahead."""
    ahead = 0
    if isinstance(window, str):
        before, ahead = (int(part) for part in window.split(":"))
        window = before + 1
    if isinstance(documents, str):
        documents = tuple(int(part) for part in documents.split(":"))
    return Mask(causal, window, documents, ahead)


def _flag(name: str) -> Callable[[Any], bool]:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

    def parse(value: Any) -> bool:
        if str(value).strip().lower() not in words:
            raise ExperimentError(name, _shown(value), "true or false")
        return words[str(value).strip().lower()]

    return parse


def _word(value: Any) -> str:
    return str(value).strip().lower()


def _shown(value: Any) -> str:
    """A value as an error shows it: short, and on one line."""
    text = " ".join(str(value).split())
    return repr(text if len(text) <= 40 else text[:40] + "…")


@dataclass(frozen=True)
class Parameter:
    """One flat value of an experiment: its name, how it is read from text, and what it must be."""

    name: str
    default: Any
    parse: Callable[[Any], Any]
    get: Callable[[Experiment], Any]
    holds: Callable[[Any], bool]
    rule: str | Callable[[], str] = field(repr=False)

    @property
    def must(self) -> str:
        """What a value must be."""
        return self.rule if isinstance(self.rule, str) else self.rule()

    def check(self, value: Any) -> None:
        """Raise ExperimentError unless the value is allowed."""
        if not self.holds(value):
            raise ExperimentError(self.name, _shown(value) if isinstance(value, str) else value, self.must)


def _number(name: str, low: int, high: int, default: int | None, get, optional: bool = False) -> Parameter:
    def holds(value):
        return (optional and value is None) or (isinstance(value, int) and low <= value <= high)

    rule = f"a whole number from {low:,} to {high:,}"
    return Parameter(name, default, _whole(name, rule), get, holds, rule)


def _window() -> Parameter:
    whole = f"a whole number from 1 to {LARGEST_SEQUENCE:,}"
    rule = f"{whole}, or two, keys before and after, as 4:2"

    numbers = _numbers("window", rule)

    def parse(value: Any) -> int | str | None:
        window = numbers(value)
        if not isinstance(window, str):
            return window
        sides = [int(side) for side in window.split(":")]
        if len(sides) != 2 or max(sides) >= LARGEST_SEQUENCE:
            raise ExperimentError("window", _shown(value), rule)
        return window if sides[1] else sides[0] + 1

    def holds(value):
        return value is None or isinstance(value, str) or 1 <= value <= LARGEST_SEQUENCE

    return Parameter("window", None, parse, lambda e: e.problem.mask.window_text(), holds, rule)


def _documents() -> Parameter:
    whole = f"a whole number from 1 to {LARGEST_SEQUENCE:,}"
    rule = f"{whole}, or lengths that add up to seq_kv, as 100:28"

    def holds(value):
        return isinstance(value, str) or 1 <= value <= LARGEST_SEQUENCE

    parse = _numbers("documents", rule)
    return Parameter("documents", 1, parse, lambda e: e.problem.mask.documents_text(), holds, rule)


def _block(name: str, get) -> Parameter:
    def holds(value):
        return (
            isinstance(value, int) and SMALLEST_BLOCK <= value <= LARGEST_BLOCK and value & (value - 1) == 0
        )

    rule = f"a power of two from {SMALLEST_BLOCK} to {LARGEST_BLOCK}"
    return Parameter(name, 64, _whole(name, rule), get, holds, rule)


def _choice(name: str, options: Collection[str], default: str, get) -> Parameter:
    """One of some words, which may become more."""
    return Parameter(
        name, default, _word, get, lambda value: value in options, lambda: f"one of {', '.join(options)}"
    )


PARAMETERS = (
    _choice("algorithm", ALGORITHMS, "flash2", lambda e: e.algorithm),
    _number("batch", 1, 4096, 1, lambda e: e.problem.batch),
    _number("heads", 1, 1024, 16, lambda e: e.problem.heads),
    _number("kv_heads", 1, 1024, None, lambda e: e.problem.kv_heads),
    _number("seq", 1, LARGEST_SEQUENCE, 1024, lambda e: e.problem.seq_q),
    _number("seq_kv", 1, LARGEST_SEQUENCE, None, lambda e: e.problem.seq_kv),
    _number("head_dim", 1, 256, 64, lambda e: e.problem.head_dim),
    _choice("dtype", DTYPE_BYTES, "float16", lambda e: e.problem.dtype),
    Parameter(
        "causal",
        False,
        _flag("causal"),
        lambda e: e.problem.mask.causal,
        lambda v: isinstance(v, bool),
        "true or false",
    ),
    _window(),
    _documents(),
    _block("block_q", lambda e: e.asked.block_q),
    _block("block_kv", lambda e: e.asked.block_kv),
    _number("splits", 1, 1024, 1, lambda e: e.asked.splits),
    _number("stages", 1, 8, 2, lambda e: e.asked.stages),
    _choice("hardware", GPUS, "h200", lambda e: e.hardware),
)
BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}
