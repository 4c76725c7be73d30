"""What was seen of a watched kernel as rows of tables: findings, bytes by tensor, bytes by program."""

from typing import Any

from app.figures.units import number_text


def findings(found: dict[str, Any]) -> list[dict[str, str]]:
    """Every finding, a sentence each, with where it is."""
    return [
        {
            "finding": each["sentence"],
            "line": str(each["line"] or ""),
            "program": _index(each["program"]),
            "tensor": each["tensor"] or "",
        }
        for each in found["findings"]
    ]


def first_wrong(first: dict[str, Any]) -> list[dict[str, str]]:
    """m, α, l and O of a row after the first tile that goes wrong, as they must be and as they are."""
    names = ("m", "α", "l", "O, its first number")
    lines = zip(names, first["must"], first["found"], strict=True)
    return [
        {"after it": name, "must be": _number(must), "found": _number(found)} for name, must, found in lines
    ]


def by_tensor(found: dict[str, Any]) -> list[dict[str, str]]:
    """Bytes that all programs read and wrote, beside FlashAttention-2's in the same blocks."""
    other = "FlashAttention-2" if "visits" in found else "needed"
    kinds = {"read": "read_bytes", "written": "written_bytes"}
    kinds |= {f"{other}: {kind}": f"flash2_{of}" for kind, of in kinds.items()}
    names = dict.fromkeys([*found["read_bytes"], *found["written_bytes"]])
    return [
        {"": name, **{kind: _amount(found[of].get(name)) for kind, of in kinds.items()}} for name in names
    ]


def by_program(found: dict[str, Any]) -> list[dict[str, str]]:
    """Bytes that every program moved by tensor, beside FlashAttention-2's for the same query block."""
    programs = found["by_program"]
    names = dict.fromkeys(name for each in programs for name in each["moved"])
    return [
        {
            "program": f"{each['launch']} {_index(each['program'])}",
            "head": _amount(each["head"]),
            "query block": _amount(each["query_block"]),
            **{name: _moved(each["moved"].get(name)) for name in names},
            "all": _amount(each["bytes"]),
            "FlashAttention-2: Q, K, V, O": _amount(each["flash2_bytes"]),
        }
        for each in programs
    ]


def _moved(pair: list[int] | None) -> str:
    """Read and written; one of them alone where the other is nothing."""
    read, written = pair or (0, 0)
    return f"{read:,} + {written:,}" if read and written else f"{max(read, written):,}"


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value, 4)


def _amount(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _index(program: list[int] | None) -> str:
    return f"({', '.join(map(str, program))})" if program else ""
