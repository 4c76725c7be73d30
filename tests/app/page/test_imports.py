"""A page imports only what it needs."""

import sys
from pathlib import Path

from app.contents import PAGES

MAIN = Path(__file__).resolve().parents[3] / "app" / "dashboard.py"
PROGRAM = f"""
import sys
from functools import cache
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
for page in {tuple(PAGES)}:
    app = AppTest.from_file({str(MAIN)!r}, default_timeout=600)
    app._page_hash = calc_hash(page)
    assert not app.run().exception, page
    print(page)
found = {{"torch", "triton", "kernels"}} & sys.modules.keys()
assert not found, found
"""
BESIDE = [sys.executable, "-c", PROGRAM]


def test_a_page_that_needs_no_kernels_imports_neither_torch_nor_triton(beside):
    assert beside(__name__).split() == list(PAGES)
