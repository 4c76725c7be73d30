"""Values from JSON files that may come from a stranger.

Nothing is trusted: every field is checked against its type, nothing in it is executed, and whatever is wrong
becomes one sentence (FileError) that names the place.
"""

import json
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from engine.root import Refusal

UNREAD = {"tflops", "pieces"}  # said by earlier files, and not looked at
LONGEST_TEXT = 600
LARGEST_NUMBER = 10**18
# Markdown's links and pictures, references to them, tags, and addresses that become links by themselves
ELSEWHERE = re.compile(
    r"!?\[[^\]]*\]\s*[(\[:]|<[a-zA-Z/!?][^<>]*>|\w+:/\s*/|\bwww\.|\bmailto:", re.IGNORECASE
)


class FileError(Refusal, ValueError):
    """Why a file cannot be shown, in one sentence."""


@dataclass(frozen=True)
class Format:
    """A kind of file: JSON that says what it is and of which version."""

    name: str  # as the file says
    version: int
    what: str  # in a sentence
    largest: int  # bytes
    again: str = ""  # what to do where it is of another version

    def load(self, path: Path, kind: type, fault: Callable[[Any], str | None]) -> Any:
        """A record from a file; raises FileError."""
        try:
            with path.open("rb") as file:
                data = file.read(self.largest + 1)
        except OSError as error:
            raise FileError(f"{path.name} cannot be read: {error.strerror}") from None
        return self.loads(data, path.name, kind, fault)

    def loads(self, data: bytes, name: str, kind: type, fault: Callable[[Any], str | None]) -> Any:
        """The same from a file's bytes, as `decoded` has it."""
        if len(data) > self.largest:
            raise FileError(f"{name} is larger than {self.largest // 2**20} MB")
        content = _parsed(data, name)
        if not isinstance(content, dict) or content.pop("format", None) != self.name:
            raise FileError(f"{name} is not {self.what}")
        version = content.pop("version", None)
        if type(version) is not int or version != self.version:
            said = str(version)[:20] if type(version) is int else "unreadable"
            reads = f"this program reads version {self.version}{self.again}"
            raise FileError(f"{name} is {self.what.split(' of ')[0]} of version {said}; {reads}")
        try:
            return decoded(kind, content, f"the {self.what.split()[1]}", fault)
        except FileError as error:
            raise FileError(f"{name} is damaged: {error}") from None


hints_of = cache(get_type_hints)


def decoded(kind: Any, value: Any, where: str, fault: Callable[[Any], str | None]) -> Any:
    """A value of this type from its JSON; raises FileError naming the place.

    fault: (record) -> what is wrong with values that each have the right type, or None.
    """
    if is_dataclass(kind):
        return _record(kind, value, where, fault)
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [kind for kind in arguments if isinstance(value, list) == (get_origin(kind) is tuple)]
        none = value is None and types.NoneType in arguments
        return None if none else decoded((kinds or arguments)[0], value, where, fault)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise FileError(f"{where} must be a list")
        if arguments[0] is int:  # tens of thousands of them
            if not all(type(each) is int and abs(each) <= LARGEST_NUMBER for each in value):
                raise FileError(f"{where} must be whole numbers up to {LARGEST_NUMBER:.0e}")
            return tuple(value)
        return tuple(decoded(arguments[0], item, f"{where} {i + 1}", fault) for i, item in enumerate(value))
    if get_origin(kind) is Mapping:
        if not isinstance(value, dict):
            raise FileError(f"{where} must be an object")
        return types.MappingProxyType(
            {
                _text(key, where): decoded(arguments[1], item, f"{key} of {where}", fault)
                for key, item in value.items()
            }
        )
    if kind is str:
        return _text(value, where)
    if kind is bool:
        if not isinstance(value, bool):
            raise FileError(f"{where} must be true or false")
        return value
    return _number(kind, value, where)


def _record(kind: type, value: Any, where: str, fault: Callable[[Any], str | None]) -> Any:
    if not isinstance(value, dict):
        raise FileError(f"{where} must be an object")
    hints = hints_of(kind)
    if unknown := set(value) - set(hints) - UNREAD:
        raise FileError(f"{where} has {min(unknown)[:40]!r}, which this version does not know")
    given = {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = decoded(
                hints[field.name], value[field.name], f"{field.name} of {where}", fault
            )
        elif field.default is MISSING:
            raise FileError(f"{where} lacks {field.name}")
    record = kind(**given)
    if wrong := fault(record):
        raise FileError(f"{where} {wrong}")
    return record


def leads_elsewhere(text: str) -> str:
    """The first link, picture, address or tag in a text that a page may show as Markdown; empty for none."""
    found = ELSEWHERE.search(text)
    return found[0] if found else ""


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise FileError(f"{where} must be one line of at most {LONGEST_TEXT} characters")
    if leads_elsewhere(value):
        raise FileError(f"{where} must hold no link, picture, address or tag")
    return value


def _number(kind: type, value: Any, where: str) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and (kind is int or not isinstance(value, float)):
        raise FileError(f"{where} must be a {'whole ' if kind is int else ''}number")
    if not 0 <= value <= LARGEST_NUMBER:
        raise FileError(f"{where} must be from 0 to {LARGEST_NUMBER:.0e}")
    return kind(value)


def _parsed(text: bytes, name: str) -> Any:
    def refuse(constant: str):
        raise ValueError(constant)

    try:
        return json.loads(text.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError):
        raise FileError(f"{name} is damaged: it is not JSON") from None
