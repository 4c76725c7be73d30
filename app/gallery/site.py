"""Every file of the gallery, by name: the same pages from the same functions, without a session."""

from __future__ import annotations

from functools import partial
from html import escape

from app import across, inside, player, start
from app.contents import NAME
from app.figures import masks as mask_figures
from app.gallery import measured, softmax
from app.gallery.shell import above, both, page, styles
from app.gallery.tour import tour
from app.glossary.terms import listed
from app.page.masks import panels
from app.player import backward
from app.player.payload import begun, build
from app.scenario.presets import preset
from engine.algorithms import ALGORITHMS, flash3, offered
from engine.experiment import Experiment
from engine.model.cluster.fabric import Fabric
from engine.model.warp_groups import inside as lanes_of
from engine.recordings.file import recordings
from engine.studies.across import ORDERS, runs_of, spread_of
from engine.studies.masks import under_masks

EXAMPLE = "The 4096-token example"
TOUR = "attention"
USUAL = Experiment()
DECODING = {"seq": 1, "seq_kv": 8192, "heads": 32, "kv_heads": 8, "head_dim": 128, "splits": 8}
LONG, GPUS = 131_072, 4  # tokens of a sequence, and the GPUs that share it
RACE = {"seq": 2048, "heads": 128}  # heads enough for every SM, also where one block takes a whole head
Entry = tuple[str, str, str]  # a file, its title, and what it shows


def site() -> dict[str, str]:
    """The whole site: names of files and what is in them; the same at every call."""
    groups = {"Learn": _learn(), "Watch": _watch(), "Measure": _measure()}
    files, listing = {}, {}
    for group, made in groups.items():
        listing[group] = [entry for entry, _ in made]
        for (file, _, _), text in made:
            files |= text if isinstance(text, dict) else {file: text}
    return {"index.html": _index(listing), **files}


def _learn() -> list[tuple[Entry, str | dict[str, str]]]:
    about = (
        "What popular articles say of attention, each held against counted, modelled and recorded numbers."
    )
    return [
        (("tour.html", "Tour", "Attention from slow to fast, with a question at every step."), tour(TOUR)),
        (("claims.html", "Claims", about), page("Claims", about, measured.claims())),
        (
            ("glossary.html", "Glossary", "Every term that the pages use."),
            page("Glossary", "Every term that the pages use, in order.", listed()),
        ),
    ]


def _watch() -> list[tuple[Entry, str]]:
    """A player of every algorithm, two races, and one thread block from inside."""
    made = []
    for key in (*offered(), "split_kv"):
        record = ALGORITHMS[key]
        changed = DECODING if key == "split_kv" else {"head_dim": 128} if record.chooses_tiling else {}
        experiment = USUAL.changed(algorithm=key, **changed)
        made.append(_player(f"tiles-{key}.html", record.label, tokens(experiment), build(experiment)))
    tiny = preset("Tiny, to count by hand")
    made.append(_player("tiles-tiny.html", "FlashAttention-2, few tiles", tokens(tiny), build(tiny)))
    made.append(_player("backward.html", "Backward pass", tokens(USUAL), backward.build(USUAL)))
    for file, title, causal in (("race.html", "Race", False), ("race-causal.html", "Race, causal", True)):
        experiment = Experiment.of(causal=causal, **RACE)
        about = f"{tokens(experiment)} Every lane runs on the modelled clock of an H200."
        made.append(_player(file, title, about, begun(build(experiment), race=True)))
    block = lanes_of(preset(EXAMPLE), flash3.ALGORITHM.pipeline)
    title, about = (
        "Inside one thread block",
        "FlashAttention-3 on an H200: copies, products and softmax, modelled.",
    )
    text = inside.moving().offline(inside.payload(block), title, above(title, about))
    made.append((("inside.html", title, about), text))
    return [*made, _softmax(), _across()]


def _softmax() -> tuple[Entry, str]:
    title, about = (
        "Softmax",
        "Rows of scores, some at a time: the running maximum and sum, and what is rescaled.",
    )
    return ("softmax.html", title, about), page(title, about, softmax.rows())


def _across() -> tuple[Entry, str]:
    """A ring of GPUs in zigzag and in plain order."""
    spread = spread_of(USUAL, LONG, GPUS, True, Fabric())
    title = across.TITLE
    about = f"{LONG:,} causal tokens over {GPUS} GPUs: who holds which keys, and what travels (modelled)."
    text = across.moving().offline(across.payload(runs_of(spread, ORDERS)), title, above(title, about))
    return ("across.html", title, about), text


def _player(file: str, title: str, about: str, payload: bytes) -> tuple[Entry, str]:
    return (file, title, about), player.moving().offline(payload, title, above(title, about))


def tokens(experiment: Experiment) -> str:
    """Lengths, head dimension and blocks, in words."""
    problem, tiling = experiment.problem, experiment.tiling
    tokens = f"{problem.seq_kv:,} tokens"
    if problem.seq_q != problem.seq_kv:
        tokens = f"{problem.seq_q:,} {'query' if problem.seq_q == 1 else 'queries'}, {problem.seq_kv:,} keys"
    return f"{tokens}, head dimension {problem.head_dim}, blocks of {tiling.block_q} × {tiling.block_kv}."


def _measure() -> list[tuple[Entry, str]]:
    """Bytes, masks, and what was recorded where there is a recording."""
    example = preset(EXAMPLE)
    about = f"{tokens(example)} {example.problem.all_heads} heads, causal."
    pages = {
        ("traffic.html", "Traffic", about): partial(measured.bytes_moved, example),
        ("masks.html", "Masks", f"Which tiles a mask spares. {tokens(USUAL)}"): partial(masks, USUAL),
    }
    for recording in recordings()[:1]:
        pages["speed.html", "Speed", "Recorded kernels over the sequence length."] = partial(
            measured.recorded_speed, recording, example
        )
    made = [((file, title, says), page(title, says, make())) for (file, title, says), make in pages.items()]
    for recording in recordings()[:1]:
        title, says = (
            "On the GPU",
            "Which thread block ran on which SM and when, as recorded and as modelled.",
        )
        text = measured.on_the_gpu(recording, example, title, says)
        made.append((("gpu.html", title, says), text))
        title, says = "Agreement", "The model against the counters of a real GPU, scenario by scenario."
        body = measured.agreement(recording, example)
        made.append((("agreement.html", title, says), page(title, says, body)))
    return made


def masks(experiment: Experiment) -> str:
    """Which tiles the masks spare."""
    found, problem = under_masks(experiment), experiment.problem
    return both(
        lambda colours: (
            mask_figures.multiples(panels(found, experiment), problem.seq_q, problem.seq_kv, colours)
            + mask_figures.key(found[0].density.exact, colours)
        )
    )


def _index(listing: dict[str, list[Entry]]) -> str:
    """The first page: the opening picture, and every other page by group."""
    lists = "".join(
        f"<h2>{group}</h2><ul class='list'>"
        + "".join(
            f"<li><a href='{file}'>{escape(title)}</a><span>{escape(about)}</span></li>"
            for file, title, about in entries
        )
        + "</ul>"
        for group, entries in listing.items()
    )
    ways = (
        "<p class='ways'><a href='tour.html'>Start the lecture</a><a href='tiles-flash2.html'>Explore</a></p>"
    )
    opening = f"<style>{styles()}</style><div class='prose'><h1>{NAME}</h1><p>{start.SENTENCE}</p>{ways}"
    if (work := start.shown()) is None:
        return page(NAME, start.SENTENCE, ways + lists)
    told = f"<p><b>{start.conclusion(work)}</b></p><p class='note'>{start.origin(work)}</p>"
    below = f"<div class='prose'>{told}{lists}</div>"
    return start.moving().offline(start.payload(work), NAME, f"{opening}</div>", below)
