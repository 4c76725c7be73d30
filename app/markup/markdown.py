"""The Markdown that tours and claims are written in, as HTML: paragraphs, lists, code, links, formulas."""

from __future__ import annotations

import re
from html import escape

from app import contents
from app.markup.formulas import mathml

INLINE = (
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\*\*(.+?)\*\*"), r"<b>\1</b>"),
    (re.compile(r"(?<!\*)\*([^*\s][^*]*)\*"), r"<i>\1</i>"),
    (re.compile(r"\[([^\]]+)\]\((https?://[^)\s]+)\)"), r'<a href="\2">\1</a>'),
    (re.compile(r"\[([^\]]+)\]\((\w+)\)"), lambda found: _link(found[1], found[2])),
)
ITEM = re.compile(r"^(?:[-*]|\d+\.)\s+")


def html(markdown: str) -> str:
    """Blocks apart by empty lines; within code nothing else is read."""
    pieces = re.split(r"^```\w*\n(.*?)^```\s*$", markdown.strip(), flags=re.MULTILINE | re.DOTALL)
    parts = []
    for number, piece in enumerate(pieces):
        if number % 2:
            parts.append(f"<pre tabindex='0'><code>{escape(piece)}</code></pre>")
        else:
            parts += [_block(block) for block in re.split(r"\n\s*\n", piece.strip()) if block.strip()]
    return "\n".join(parts)


def _block(block: str) -> str:
    lines = block.strip().splitlines()
    if block.startswith("$$"):
        return mathml(block.strip().strip("$"))
    if all(ITEM.match(line) or line.startswith("  ") for line in lines):
        items = re.split(r"\n(?=(?:[-*]|\d+\.)\s)", block.strip())
        return "<ul>" + "".join(f"<li>{inline(ITEM.sub('', item))}</li>" for item in items) + "</ul>"
    if lines[0].startswith("#"):
        return f"<h3>{inline(lines[0].lstrip('# '))}</h3>" + (
            _block("\n".join(lines[1:])) if lines[1:] else ""
        )
    return f"<p>{inline(' '.join(lines))}</p>"


def _link(words: str, page: str) -> str:
    """A link to a page of the dashboard leads to the first of its files in the static site."""
    picture = contents.picture(page) if page in contents.PAGES else None
    file = next(iter(picture.files()), None) if picture else None
    return f"<a href='{file.name}'>{words}</a>" if file else words


def inline(text: str) -> str:
    """What stands within a line, its own HTML shown as it is written."""
    pieces = re.split(r"(?<![\\$])\$([^$]+)\$", text)
    done = []
    for number, piece in enumerate(pieces):
        if number % 2:
            done.append(mathml(piece).replace(" display='block'", ""))
            continue
        piece = escape(piece, quote=False).replace("\\$", "$")
        for pattern, made in INLINE:
            piece = pattern.sub(made, piece)
        done.append(piece)
    return "".join(done)
