"""A lecture as it is given: a presenter and three phones in Chromium, steps of the tour with votes on each.

Run `python tests/browser/rehearse_lecture.py [FOLDER]`, which takes pictures where a folder is named. One
phone reloads after a vote, one joins late. Prints how long a vote takes to the presenter's screen and a step
to all phones, and fails where a phone misses something.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.browser.bench_pages import chromium  # noqa: E402
from tests.load import free_port  # noqa: E402

STEPS, LATE, RELOADS = 12, 5, 7  # steps; the one before which the last phone joins; at which one reloads
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
PATIENCE = 60_000  # ms


def main() -> None:
    """Give the lecture once, in each theme."""
    port = free_port()
    command = [sys.executable, "-m", "app.room", "--address", "127.0.0.1", "--port", "0"]
    command += ["--dashboard-port", str(port)]
    room = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        link = re.search(r"http://\S+\w", room.stdout.readline())[0]
        while f":{port}" not in room.stdout.readline():  # it says where the dashboard is
            pass
        with sync_playwright() as playwright:
            browser = chromium(playwright)
            for theme in ("dark", "light"):
                print(json.dumps({"theme": theme, **lecture(browser, theme, port, link)}), flush=True)
            browser.close()
    finally:
        room.terminate()
        room.wait(timeout=30)


def lecture(browser, theme: str, port: int, link: str) -> dict[str, float]:
    """From the first step to the last."""
    chance, votes, steps, said = random.Random(theme), [], [], []
    contexts = [browser.new_context(**PHONE, color_scheme=theme) for _ in range(3)]
    screen = browser.new_context(viewport={"width": 1920, "height": 1080}, color_scheme=theme)
    presenter = screen.new_page()
    phones = [context.new_page() for context in contexts[:2]]
    for page in (presenter, *phones):
        watched(page, said)
        page.goto(f"http://127.0.0.1:{port}/tour?present=true" if page is presenter else link)
    for number in range(1, STEPS + 1):
        if number == LATE:
            phones.append(contexts[2].new_page())
            watched(phones[-1], said)
            phones[-1].goto(link)
        begun = time.perf_counter()
        if number > 1:
            presenter.keyboard.press("PageDown")
        for phone in phones:
            phone.locator("#place").get_by_text(f"step {number} of").wait_for(timeout=PATIENCE)
            phone.locator("#choices button:enabled").first.wait_for(timeout=PATIENCE)
        steps.append(time.perf_counter() - begun)
        cast = []
        for voters, phone in enumerate(phones, 1):
            choices = phone.locator("#choices button")
            cast.append(chance.randrange(choices.count()))
            begun = time.perf_counter()
            choices.nth(cast[-1]).click()
            counted = f"{voters} vote{'s' * (voters > 1)}"
            presenter.locator(".st-key-room_badge").get_by_text(counted).wait_for(timeout=PATIENCE)
            votes.append(time.perf_counter() - begun)
        if number == RELOADS:
            phones[1].reload()
            phones[1].locator("#choices button[aria-pressed=true]").wait_for(timeout=PATIENCE)
        presenter.keyboard.press("PageDown")
        for phone in phones:
            choices = phone.locator("#choices button")
            phone.locator("#choices button:disabled").first.wait_for(timeout=PATIENCE)
            tally = [int(re.search(r"\d+$", words)[0]) for words in choices.all_inner_texts()]
            assert tally == [cast.count(index) for index in range(len(tally))], (number, tally, cast)
        presenter.locator(".st-key-tour_told").wait_for(timeout=PATIENCE)
        if number in (1, STEPS):
            folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
            for name, page in (("screen", presenter), ("phone", phones[-1])) if folder else ():
                page.wait_for_timeout(1500)
                page.screenshot(path=folder / f"{name}-{theme}-{number}.png")
    for context in (*contexts, screen):
        context.close()
    return {
        "votes": len(votes),
        "vote_ms": 1e3 * statistics.median(votes),
        "vote_worst_ms": 1e3 * max(votes),
        "step_ms": 1e3 * statistics.median(steps[1:]),
        "step_worst_ms": 1e3 * max(steps[1:]),
        "complaints": len(said),
    }


def watched(page: Page, said: list[str]) -> None:
    """Note what a page's scripts complain of."""
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)


if __name__ == "__main__":
    main()
