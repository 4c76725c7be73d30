"""Every kind of file of the gallery in a real Chromium, offline: drawn, and within the window."""

import os
import re
import subprocess
import sys

import pytest

from app import contents
from engine.root import ROOT

pytestmark = pytest.mark.browser

LARGEST = 10e6  # bytes of the whole site
DRAWN = """() => [...document.querySelectorAll('canvas[role=img]')].every((picture) => {
    const { width, height } = picture.getBoundingClientRect();
    return width > 100 && height > 60;
})"""
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SCRIPT = re.compile(r"<script type=\"module\">.*?</script>", re.DOTALL)


def test_files_open_offline_and_the_lecture_tells_its_answers(page, tmp_path):
    """Of those that one script draws one is opened; the files are opened one after the other in one page."""
    command = [sys.executable, "-m", "app.gallery", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "7"}, check=True)
    files = {path.name: path for path in tmp_path.iterdir()}
    made = {name: path.read_text("utf-8") for name, path in files.items()}
    for each in ("tiles", "masks", "across"):
        for file in contents.picture(each).files(each, contents.PAGES[each]):
            assert file.documents().items() <= made.items()  # twice, alike
    assert sum(path.stat().st_size for path in files.values()) < LARGEST
    page.context.set_offline(True)
    drawn = {}
    for name, text in sorted(made.items()):
        script = SCRIPT.search(text)
        drawn.setdefault(script[0] if script else name, name)
    for name in drawn.values():
        linked = name == "index.html" or f"href='{name}'" in made["index.html"]  # others stand in frames
        page.set_viewport_size({"width": 1440 if linked else 390, "height": 900})
        page.goto(files[name].as_uri())
        for width in (1440, 390) if linked else (390,):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(DRAWN)
            assert page.evaluate(WIDER) <= 0, f"{name} at {width} pixels"
        assert page.watch.complaints == [], name
    page.goto(files["index.html"].as_uri())
    page.get_by_role("link", name="Start the lecture").click()
    step = page.locator(".step").first
    step.get_by_role("button").first.click()
    assert step.get_by_role("button").first.inner_text().endswith("1 vote")
    assert step.locator(".answer").is_hidden()
    step.get_by_role("button", name="The answer").click()
    assert step.locator(".answer").is_visible()
    assert step.locator("button.right").count() == 1
    assert {host for host in page.watch.hosts if host} == set()
