"""What was seen of a watched kernel as tables: findings, bytes by tensor, bytes by program."""

from collections.abc import Mapping
from typing import Any

from app.figures.tables import scrolled, table
from app.figures.units import number_text
from engine.watch.labs import Lab

LOW, TALL = 330, 900  # px that a long table takes, and one that scrolls sideways only, on narrow screens


def findings(found: dict[str, Any]) -> str:
    """Every finding, a sentence each, with where it is."""
    rows = [
        [each["sentence"], str(each["line"] or ""), _index(each["program"]), each["tensor"] or ""]
        for each in found["findings"]
    ]
    return scrolled(table(["finding", "line", "program", "tensor"], rows, title="Findings"), TALL)


def first_wrong(found: dict[str, Any]) -> str:
    """m, α, l and O of a row after the first tile that goes wrong, as they must be and as they are."""
    first = found["first_wrong"]
    rows = [
        [name, *("" if value is None else number_text(value, 4) for value in pair)]
        for name, *pair in zip(
            ("m", "α", "l", "O, its first number"), first["must"], first["found"], strict=True
        )
    ]
    return table(["after it", "must be", "found"], rows, title="The first tile that goes wrong")


def by_tensor(found: dict[str, Any]) -> str:
    """Bytes that all programs read and wrote, beside FlashAttention-2's in the same blocks."""
    names = dict.fromkeys([*found["read_bytes"], *found["written_bytes"]])
    rows = [
        [name, *(_amount(found[key].get(name)) for key in ("read_bytes", "written_bytes")),
         *(_amount(found[key].get(name)) for key in ("flash2_read_bytes", "flash2_written_bytes"))]
        for name in names
    ]  # fmt: skip
    other = "FlashAttention-2" if "visits" in found else "needed"
    head = ["", "read", "written", f"{other}: read", "written"]
    return scrolled(table(head, rows, title="Bytes by tensor"), TALL)


def by_program(found: dict[str, Any]) -> str:
    """Bytes that every program moved by tensor, beside FlashAttention-2's for the same query block."""
    programs = found["by_program"]
    names = list(dict.fromkeys(name for each in programs for name in each["moved"]))
    rows = [
        [f"{each['launch']} {_index(each['program'])}", _amount(each["head"]), _amount(each["query_block"]),
         *(_moved(each["moved"].get(name)) for name in names),
         _amount(each["bytes"]), _amount(each["flash2_bytes"])]
        for each in programs
    ]  # fmt: skip
    head = ["program", "head", "query block", *names, "all", "FlashAttention-2: Q, K, V, O"]
    return scrolled(table(head, rows, title="Bytes by program"), LOW)


def ladder(labs: Mapping[int, Lab]) -> str:
    """The labs in order, with what each is about."""
    rows = [[f"Lab {number}", lab.title] for number, lab in labs.items()]
    return table(["", "the kernel's hole"], rows, words=(0, 1), title="Labs")


def _moved(pair: list[int] | None) -> str:
    """Read and written; one of them alone where the other is nothing."""
    read, written = pair or (0, 0)
    return f"{read:,} + {written:,}" if read and written else f"{max(read, written):,}"


def _amount(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _index(program: list[int] | None) -> str:
    return f"({', '.join(map(str, program))})" if program else ""
