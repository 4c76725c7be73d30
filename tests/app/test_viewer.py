"""Whoever only looks has no PyTorch: every page opens, and what would run a kernel says why it does not."""

import os
import subprocess
import sys

from engine.root import ROOT
from engine.worker.process import MISSING

# Python reads this file at its start, here and in the process that the pages' jobs run in
WITHOUT = "import sys; sys.modules.update(dict.fromkeys(('torch', 'triton')))"
OPENED = """
import logging, time, streamlit
streamlit.App(MAIN)  # reads the configuration beside it
logging.disable(logging.CRITICAL)
from functools import cache
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from app.contents import PAGES
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
for name in PAGES:
    page = AppTest.from_file(MAIN, default_timeout=100)
    page._page_hash = calc_hash(name)
    page.run()
    for button in [each for each in page.button if each.label.endswith("on this machine")]:
        button.click().run()
        while any(each.label == "Cancel" for each in page.button):
            time.sleep(0.1)
            page.run()
    assert not page.exception, (name, page.exception[0].message)
    print(name, *(each.value for each in page.error), sep=": ")
from engine.worker.client import Worker
job = Worker().submit("app.gallery.phone:draw", {"page": "tiles", "values": {}})  # for a room's phones
job.wait(60)
print("phone", job.state, sep=": ")
"""


def test_every_page_opens_without_pytorch_and_a_kernels_button_says_what_is_missing(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    run = subprocess.run(
        [sys.executable, "-c", f"MAIN = {str(ROOT / 'app' / 'dashboard.py')!r}\n{OPENED}"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    said = dict(line.split(": ", 1) for line in run.stdout.splitlines() if ": " in line)
    assert said == {"speed": MISSING, "agreement": MISSING, "phone": "done"}
