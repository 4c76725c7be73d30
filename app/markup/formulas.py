"""LaTeX formulas as MathML, which browsers draw by themselves: what this project's formulas use of it.

Understood are letters, numbers and signs, groups, ^ and _, fractions, \\text, spaces, aligned lines and the
commands of SIGNS; of any other command its name is shown.
"""

from __future__ import annotations

import re
from html import escape

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}^_&]|\d+(?:[.,]\d+)*|\s+|.", re.DOTALL)
SIGNS = {
    "cdot": "·", "le": "≤", "ge": "≥", "approx": "≈", "propto": "∝", "Theta": "Θ", "sum": "∑", "infty": "∞",
    "lceil": "⌈", "rceil": "⌉", "alpha": "α", "delta": "δ", "times": "×", "top": "⊤", "odot": "⊙", "to": "→",
    "lfloor": "⌊", "rfloor": "⌋", "neq": "≠", "ll": "≪", "gg": "≫", "log": "log", "max": "max", "min": "min",
    "exp": "exp", "in": "∈", "ldots": "…", "dots": "…", "quad": "\u2003", "qquad": "\u2003\u2003",
    ",": "\u2009", " ": "\u00a0", ";": "\u2004", ":": "\u2005",
}  # fmt: skip
SILENT = ("left", "right", "textstyle", "displaystyle", "!", "limits")


def mathml(latex: str) -> str:
    """A formula as a block of MathML."""
    parts = TOKEN.findall(latex)
    drawn = _row(parts, stop=None)
    if "\\left" not in latex:  # there brackets are as tall as a letter
        drawn = re.sub(r"<mo>(?=[()\[\]|])", "<mo stretchy='false'>", drawn)
    return f"<math display='block' tabindex='0'>{drawn}</math>"


def _row(parts: list[str], stop: str | None) -> str:
    """What stands until `stop`, taken from the front of the parts."""
    done: list[str] = []
    lines: list[str] = []
    while parts and (part := parts.pop(0)) != stop:
        if part in "^_":
            done.append(_script(done.pop() if done else "<mrow></mrow>", part, _atom(parts)))
        elif part == "\\\\":
            lines.append("".join(done))
            done = []
        elif part != "&" and not part.isspace() and part.removeprefix("\\") not in SILENT:
            parts.insert(0, part)
            done.append(_atom(parts))
    last = "".join(done)
    if not lines:
        return f"<mrow>{last}</mrow>"
    rows = "".join(f"<mtr><mtd>{line}</mtd></mtr>" for line in (*lines, last) if line)
    return f"<mtable>{rows}</mtable>"


def _atom(parts: list[str]) -> str:
    """One letter, number, sign, group or command, taken from the front."""
    while parts and parts[0].isspace():
        parts.pop(0)
    part = parts.pop(0) if parts else ""
    if part == "{":
        return _row(parts, "}")
    if not part.startswith("\\"):
        kind = "mn" if part[:1].isdigit() else "mi" if part.isalpha() else "mo"
        return f"<{kind}>{escape(part)}</{kind}>"
    name = part[1:]
    if name in ("frac", "tfrac", "dfrac"):
        return f"<mfrac>{_atom(parts)}{_atom(parts)}</mfrac>"
    if name == "sqrt":
        return f"<msqrt>{_atom(parts)}</msqrt>"
    if name in ("text", "mathrm", "operatorname"):
        return f"<mtext>{_words(parts)}</mtext>"
    if name in ("begin", "end"):
        _words(parts)
        return ""
    kind = "mtext" if SIGNS.get(name, name).isspace() else "mi" if name.isalpha() else "mo"
    return f"<{kind}>{escape(SIGNS.get(name, name))}</{kind}>"


def _words(parts: list[str]) -> str:
    """The plain words of the group at the front, its spaces kept."""
    parts.pop(0)
    words = []
    while parts and (part := parts.pop(0)) != "}":
        words.append(part)
    return escape("".join(words)).replace(" ", "\u00a0")


def _script(base: str, sign: str, raised: str) -> str:
    """A base with what stands below or above it; a second script joins the first."""
    first, second = ("msub", "msup") if sign == "^" else ("msup", "msub")
    if base.startswith(f"<{first}>"):
        inner = base.removeprefix(f"<{first}>").removesuffix(f"</{first}>")
        return f"<mrow><{second}><{first}>{inner}</{first}>{raised}</{second}></mrow>"
    return f"<{second}>{base}{raised}</{second}>"
