"""A KV cache in pages as pictures: whole caches beside a pool of pages, and the block tables."""

from collections.abc import Mapping
from html import escape

from app.figures.colours import Palette
from app.figures.tables import image
from engine.studies.paging import Paging

WIDTH, HEIGHT, GAP = 1024, 300, 6  # units of a picture, the same for any number of sequences
BOX = f"-1 -1 {WIDTH + 2} {HEIGHT}"
FIRST, LAST = 5, 2  # entries of a block table that are written
TONES = ("q", "k", "v", "s", "o", "violet", "lime", "statistics")  # of sequences
STYLE = """
<style>
  .paging { display: grid; grid-template-columns: 1fr 1fr; gap: 8px 28px; }
  .paging figure { margin: 0; min-width: 0; }
  .paging img { display: block; width: 100%; }
  .paging figcaption { font-size: 1rem; line-height: 1.35; padding-bottom: 6px; }
  .paging figcaption b { display: block; }
  .paging-key { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 0.93rem; margin-top: 8px; }
  .paging-key img { width: 1.07rem; height: 1.07rem; margin-right: 6px; vertical-align: -2px; }
  @media (max-width: 900px) { .paging { grid-template-columns: 1fr; } }
</style>
"""


def name(sequence: int) -> str:
    """What a sequence is called: A, B and so on."""
    return chr(ord("A") + sequence)


def pictures(paging: Paging, titles: Mapping[str, str], colours: Palette) -> str:
    """Whole caches and the pool as HTML, as large as each other, by their titles with what they show."""
    pitch, whole, pool = HEIGHT / len(paging.lengths), [], []
    for sequence, keys in enumerate(
        paging.lengths
    ):  # a row each: its keys, and the room that is kept for more
        whole += _slots(0, sequence * pitch, WIDTH, pitch, keys / paging.room, sequence, colours)
        whole.append(_letter(18, (sequence + 0.5) * pitch, sequence, colours))
    across = paging.room // paging.page_size  # pages in rows that hold as many keys as the room of a sequence
    width = WIDTH / across
    inner = width - (1.5 if across > 32 else 4)
    for page, (sequence, held) in enumerate(paging.owners.tolist()):
        left, top, share = page % across * width, page // across * pitch, held / paging.page_size
        pool += _slots(left, top, inner, pitch, share, sequence, colours)
        if inner * share > 24:
            pool.append(_letter(left + inner * share / 2, top + pitch / 2, sequence, colours))
    figures, key = "", ""
    for (title, what), shapes in zip(titles.items(), (whole, pool), strict=True):
        caption = f"<figcaption><b>{escape(title)}</b>{escape(what)}</figcaption>"
        picture = image(_drawing(BOX, shapes, colours), f"{title}: {what}")
        figures += f"<figure>{caption}{picture}</figure>"
    for fill, line, words in (
        (colours.q, "none", "keys and values, coloured by sequence"),
        ("url(#unused)", colours.muted, "reserved or taken, without a key"),
        ("none", colours.muted, "free page: any sequence may take it"),
    ):
        mark = _drawing("0 0 24 24", [_box(1, 1, 22, 22, fill, line)], colours)
        key += f"<span>{image(mark)}{escape(words)}</span>"
    drawn = f"<div class='paging' data-title='A KV cache in pages'>{figures}</div>"
    return f"{STYLE}{drawn}<div class='paging-key'>{key}</div>"


def block_tables(paging: Paging) -> list[dict[str, str]]:
    """Keys, block table and unused slots of every sequence, in rows."""
    columns = zip(paging.table, paging.lengths, paging.unused, strict=True)
    return [
        {
            "sequence": name(sequence),
            "keys": f"{keys:,}",
            "pages": f"{len(pages):,}",
            "block table: numbers of its pages": _entries(pages),
            "unused slots": f"{unused:,}",
        }
        for sequence, (pages, keys, unused) in enumerate(columns)
    ]


def _entries(pages: tuple[int, ...]) -> str:
    written = [f"{page:,}" for page in pages]
    if len(written) > FIRST + LAST + 1:
        written = [*written[:FIRST], "…", *written[-LAST:]]
    return ", ".join(written).replace("…,", "…")


def _slots(left, top, width, pitch, share: float, sequence: int, colours: Palette) -> list[str]:
    """Slots side by side, a share of them filled by a sequence; -1: they are free."""
    if sequence < 0:
        return [_box(left, top, width, pitch - GAP, "none", colours.muted)]
    unused = [_box(left, top, width, pitch - GAP, "url(#unused)", colours.muted)] * (share < 1)
    return [*unused, _box(left, top, width * share, pitch - GAP, getattr(colours, TONES[sequence]))]


def _letter(middle: float, height: float, sequence: int, colours: Palette) -> str:
    style = f"font:600 20px sans-serif;fill:{colours.ground};text-anchor:middle"
    return f"<text x='{middle:.1f}' y='{height + 4:.1f}' style='{style}'>{name(sequence)}</text>"


def _box(left: float, top: float, width: float, height: float, fill: str, line: str = "none") -> str:
    edge, place = f" stroke='{line}'" if line != "none" else "", f"x='{left:.1f}' y='{top:.1f}'"
    return f"<rect {place} width='{width:.1f}' height='{height:.1f}' fill='{fill}'{edge}/>"


def _drawing(box: str, shapes: list[str], colours: Palette) -> str:
    hatch = (
        "<pattern id='unused' width='8' height='8' patternUnits='userSpaceOnUse' "
        f"patternTransform='rotate(45)'><rect width='3' height='8' fill='{colours.bad}'/></pattern>"
    )
    opened = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='{box}'>"
    return f"{opened}<defs>{hatch}</defs>{''.join(shapes)}</svg>"
