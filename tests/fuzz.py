"""python -m tests.fuzz: hostile links, recordings, tours and pages, by the thousand, the same for a seed.

Whatever comes in is shown, or refused in one short sentence, and nothing takes seconds or hundreds of MB.
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlencode

from app.contents import PAGES
from app.scenario.link import notices, url_values
from app.tour.file import FOLDER, TourError, parse
from engine.experiment import PARAMETERS, Experiment
from engine.model.launch import launch
from engine.model.simulation import simulate
from engine.parser import Parser, ended, whole
from engine.recordings.file import FileError, dumps, loads, recordings
from engine.recordings.recording import Recording
from tests.dashboard import chromium, served

LONGEST = 1200  # characters of a sentence, the list of all quantities included
SECONDS, KEPT = 5.0, 400e6  # of a processor, and bytes that stay, of any one
WORDS = (
    *("0", "-1", "1", "2", "16", "64", "1000", "1024", "65537", "1048576", "1048577", "1e9", "NaN", "inf"),
    *("0x10", "1,0", "-0", "+1", "1.0", "TRUE", "[1]", "64:", ":64", "true", "false", "None", "null"),
    *("1_000", "1,024", "flash1", "flash2", "flash3", "standard", "split_kv", "backward", "ring", "h200"),
    *("t4", "float16", "float32", "٣", "١", "𝟙", "²", "$x$", "'", '"', "{}", "%s", "<b>", ":red[x]"),
    *("![x](http://a.b/c)", "self", "cls", "__class__", "../..", "", "9" * 30, "\x00", "a\nb", "\n"),
    *("x" * 5000, " 64 ", "1 024"),
)
VALUES = (
    *(None, True, -1, 0, 1, 2**70, 1e300, "", "x" * 700, "a\nb", "![x](http://a.b)"),
    *([], {}, [[]], {"a": 1}),
)
LINES = (
    *("answer: 1+1", "answer: 1e400", "answer: " + "1+" * 3000 + "1", "answer: " + "(" * 500, "choice: "),
    *("scenario: cls=1", "scenario: seq=x", "picture: film", "answer: k_reads / 0", "answer: -keys", "## "),
    *("formula: \\", "{", "{keys", "{keys / 0}", "{__class__}", "---", "question: {}", "unit: %", "# "),
    *("\x00", "![x](//a.b/c)", "answer: " + "9" * 399, "answer: 1/3e-300", "answer: 0 - bytes"),
    *('choice: "a" | 1 < 2', "answer: lambda: 1"),
)


def short(sentence: str) -> None:
    """Fail unless it is one short line."""
    assert "\n" not in sentence, sentence
    assert len(sentence) < LONGEST, sentence


def judged(read: Callable[..., object], *given) -> str:
    """Whether something is shown, or refused in a sentence."""
    try:
        read(*given)
    except (FileError, TourError) as error:
        short(str(error))
        return "refused"
    return "shown"


def link(chance: random.Random) -> dict[str, str]:
    """Values of a link: mostly known names, some of them with values that nobody would choose."""
    names = list(PARAMETERS)
    extreme = {name: chance.choice(WORDS) for name in chance.sample(names, chance.randint(0, 4))}
    sizes = ("seq", "seq_kv", "batch", "heads", "kv_heads", "splits", "window", "documents")
    extreme |= {name: str(2 ** chance.randint(0, 20)) for name in chance.sample(sizes, chance.randint(0, 4))}
    return extreme | {chance.choice(WORDS): chance.choice(WORDS) for _ in range(chance.randint(0, 2))}


def links(seed: int, count: int, simulated: int = 1) -> Counter:
    """Any link is a scenario, which its own link restores; of so many in a hundred the model is asked."""
    chance, found = random.Random(seed), Counter()
    for _ in range(count):
        experiment, errors = Experiment.lenient(link(chance))
        for line in notices(errors):
            short(line)
        assert Experiment.lenient(url_values(experiment)) == (experiment, ())
        found["wrong values"] += bool(errors)
        if chance.randrange(100) < simulated:
            begun = time.process_time()
            simulate(experiment)
            assert time.process_time() - begun < SECONDS, experiment
            assert launch.bytes < KEPT, experiment
            found["simulated"] += 1
    return found


def mutated(chance: random.Random, content):
    """JSON with one of its values replaced, taken out or twice there; mostly deep inside."""
    at, key, inside = None, None, content
    while inside and isinstance(inside, dict | list) and (at is None or chance.random() > 0.15):
        at = inside
        key = chance.choice(list(at) if isinstance(at, dict) else range(len(at)))
        inside = at[key]
    if key is not None:
        way = chance.randrange(4)
        if way == 0:
            del at[key]
        elif way == 1 and isinstance(at, dict):
            at[chance.choice(WORDS)] = at[key]
        else:
            at[key] = chance.choice(VALUES)
    return content


def files(seed: int, count: int) -> Counter:
    """Any file is a recording or refused."""
    chance, found = random.Random(seed), Counter()
    one = recordings()[0]
    few = {name: getattr(one, name)[:2] for name in ("timings", "sweep", "decoding", "counters")}
    text = dumps(Recording(one.device, **few))
    for _ in range(count):
        data = json.dumps(mutated(chance, json.loads(text))).encode()
        if chance.random() < 0.3:
            at = chance.randrange(len(data))
            data = data[:at] + chance.randbytes(chance.randint(0, 4)) + data[at + chance.randint(0, 40) :]
        found[judged(loads, data, "the file")] += 1
    return found


def tours(seed: int, count: int) -> Counter:
    """Any text is a tour or refused."""
    chance, found = random.Random(seed), Counter()
    whole = (FOLDER / "attention.md").read_text("utf-8")
    head, *steps = whole.split("\n## ")
    for _ in range(count):
        lines = "\n## ".join([head, *chance.sample(steps, 1)]).split("\n")
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(lines))
            way = chance.randrange(3)
            lines[at : at + (way > 0)] = [] if way == 2 else [chance.choice(LINES)]
        found[judged(parse, "\n".join(lines), "mine.md")] += 1
    return found


def pages(seed: int, count: int) -> Counter:
    """Any link on any page, in a browser: it draws, without an error of its own, and asks nobody else."""
    from playwright.sync_api import sync_playwright

    chance, found = random.Random(seed), Counter()
    with served() as server, sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page()
        page.on("pageerror", lambda error: found.update([f"error: {error}"[:150]]))
        page.on(
            "request",
            lambda asked: found.update(
                ["elsewhere"] * ("127.0.0.1" not in asked.url[:40] and asked.url.startswith("http"))
            ),
        )
        for _ in range(count):
            name, query = chance.choice(list(PAGES)), urlencode(link(chance))
            page.goto(f"{server.address}/{name}?{query}"[:8000])
            page.wait_for_selector(
                '[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=90_000
            )
            found["drawn"] += 1
            if page.locator('[data-testid="stException"]').count():
                found[f"failed: {name}?{query}"[:400]] += 1
        browser.close()
        found["megabytes"] = int(server.megabytes)
    return found


KINDS = {"links": (links, 10_000), "recordings": (files, 1000), "tours": (tours, 600), "pages": (pages, 300)}


def main() -> None:
    """The long run; what was found of each kind."""
    parser = Parser("tests.fuzz", __doc__)
    parser.add_argument("--only", choices=KINDS, nargs="*", default=list(KINDS))
    parser.add_argument("--seed", type=whole, default=1)
    options = parser.parse_args()
    for name in options.only:
        run, count = KINDS[name]
        begun = time.process_time()
        found = run(options.seed, count)
        print(f"{name}: {count}, {time.process_time() - begun:.0f} s: {dict(found)}", flush=True)


if __name__ == "__main__":
    sys.exit(ended(main))
