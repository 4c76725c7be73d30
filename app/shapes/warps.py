"""Four warps that share a tile, by its keys and by its queries: what passes from one to another."""

from app.canvas.moving import Played
from app.figures.units import bytes_text
from app.shapes import SCRIPT, Frame
from app.shapes import payload as shapes
from engine.experiment import Experiment
from engine.studies.zoom import STEPS, WARPS, partitions

SHARING = Played("warps_share_a_tile", SCRIPT, "Warps that share a tile")
SCORES, MAXIMUM, WEIGHTS, PRODUCTS, SUM = range(1, len(STEPS))  # the frames at which each is done
CUTS = {"keys": "version 1: keys", "queries": "version 2: queries"}
TILE, OUT, MEMORY = (0.05, 0.19, 0.23, 0.56), (0.32, 0.19, 0.14, 0.56), (0, 0.87, 0.47, 0.1)  # in each half
OFTEN = ("never", "once", "twice")
TOLD = {
    "cut": "FlashAttention-1 gives each of four warps a part of the keys, version 2 a part of the queries.",
    "scores": "Each multiplies its part of Q with its part of K: the same {scores} scores in both.",
    "maximum": (
        "A softmax needs a row's maximum. Warps that have a part of each row's keys leave theirs in shared "
        "memory, wait for all and read; warps that have whole rows know it."
    ),
    "weights": "Each turns its scores into weights.",
    "products": "With a part of the keys, O is a part of every row's sum. With whole rows it is done.",
    "sum": (
        "Four parts of O and l meet in shared memory, and all wait again: {bytes} per tile. In a head's "
        "{visits} tiles that is {all}. Warps that cut the queries exchange nothing."
    ),
}


def payload(experiment: Experiment) -> bytes:
    """The payload of one visit of a tile, a frame for each of its steps."""
    both = partitions(experiment)
    tiling, dim = experiment.tiling, experiment.problem.head_dim
    keys, queries = both["keys"], both["queries"]
    passed = keys.passed
    told = {
        "scores": f"{tiling.block_q * tiling.block_kv:,}",
        "bytes": bytes_text(passed[-1]),
        "visits": f"{keys.visits:,}",
        "all": bytes_text(passed[-1] * keys.visits),
    }
    frames = []
    for step, name in enumerate(STEPS):
        facts = [
            ("exchanged, keys cut", bytes_text(passed[step]), "K"),
            ("all wait, keys cut", OFTEN[keys.waits[step]], "K"),
            ("exchanged, queries cut", bytes_text(queries.passed[step]), "Q"),
            ("all wait, queries cut", OFTEN[queries.waits[step]], "Q"),
        ]
        halves = [_half(way, step, both[way].passed[step], passed[-1]) for way in CUTS]
        boxes, words = ([one for half in halves for one in half[part]] for part in (0, 1))
        frames.append(Frame(boxes, TOLD[name].format(**told), facts, words))
    note = f"a tile of {tiling.block_q} × {tiling.block_kv}, d = {dim}, counted"
    tones = [*["K", "Q", "cell", "S", "statistics", "O"] * WARPS, "panel", "O"] * len(CUTS)
    return shapes(SHARING.title, note, tones, frames, wide=True, opaque=True)


def _half(way: str, step: int, passed: int, most: int) -> tuple[list, list]:
    """Boxes and words of one way to cut the tile: what each warp has, and shared memory below."""
    by_keys, left = way == "keys", 0 if way == "keys" else 0.53
    x, y, w, h = TILE
    boxes, words = [], [(CUTS[way], left, 0.055, "ink")]
    for warp in range(WARPS):
        shade = 1 - 0.17 * warp
        strip = _strip(TILE, warp, by_keys)
        beside = (x - 0.035, y, 0.025, h), (x, y - 0.06, w, 0.04)
        k, q = beside[1], beside[0]
        k, q = (_strip(k, warp, True), q) if by_keys else (k, _strip(q, warp, False))
        scores = (*strip[:3], strip[3] * (step >= SCORES))
        maximum = strip[0] + strip[2] - 0.009, strip[1], 0.008, strip[3]
        if by_keys and step == MAXIMUM:  # in shared memory, for all
            maximum = (*maximum[:1], MEMORY[1] + 0.01, 0.008, 0.03)
        out, strong = _strip(OUT, warp, False), shade
        if by_keys and step == PRODUCTS:  # a part of every row's sum
            out = OUT[0] + 0.008 * warp, OUT[1] + 0.015 * warp, OUT[2] - 0.03, OUT[3] - 0.05
        elif by_keys:
            strong = 0.9
        boxes += [
            (*k, shade if by_keys else 0.85),
            (*q, 0.85 if by_keys else shade),
            (*strip, 1),
            (*scores, shade * (1 if step >= WEIGHTS else 0.35)),
            (*maximum, step >= MAXIMUM),
            (*out, strong * (step >= PRODUCTS)),
        ]
        name = f"{warp + 1}" if by_keys else f"warp {warp + 1}"
        words.append((name, left + strip[0] + strip[2] / 2, strip[1] + strip[3] / 2 + 0.015, "ink", "center"))
    mx, my, mw, mh = MEMORY
    boxes += [(mx, my, mw, mh, 1), (mx, my + mh - 0.015, mw * passed / (most or 1), 0.015, 1)]
    words += [
        ("K, V", left + x + w / 2, y - 0.08, "K", "center"),
        ("Q", left + x - 0.035, y - 0.02, "Q"),
        ("O", left + OUT[0] + OUT[2] / 2, y - 0.02, "O", "center"),
        ("shared memory", left, my - 0.02, "muted"),
        (bytes_text(passed), left + mw - 0.01, my + 0.06, "ink", "right"),
    ]
    return [(left + box[0], *box[1:]) for box in boxes], words


def _strip(box: tuple, warp: int, by_keys: bool) -> tuple:
    """A warp's part of a box: of its width, or of its height."""
    x, y, w, h = box
    return (
        (x + warp * w / WARPS, y, w / WARPS - 0.004, h)
        if by_keys
        else (x, y + warp * h / WARPS, w, h / WARPS - 0.006)
    )
