"""Makes README's pictures anew from the dashboard as it is: `python tests/browser/draw_readme.py`.

Each is a page of 1440 x 900 in at most 256 colours, and the run of four by four tiles is an animation.
"""

import io
import sys
from pathlib import Path

from PIL import Image, ImageSequence
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.browser.conftest import PICTURE, SIZE  # noqa: E402
from tests.dashboard import chromium, served  # noqa: E402

ASSETS = ROOT / "assets"
FEW = "tiles?algorithm=flash2&seq=256&head_dim=64&block_q=64&block_kv=64"
SETTLED = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
DRAWN = "window.__player?.state().redrawn"
MOVED = "(moment) => window.__player?.state().time > moment"


def main() -> None:
    """Draw them one after the other with one browser."""
    with served() as server, sync_playwright() as playwright:
        browser, address = chromium(playwright), server.address
        page = browser.new_page(viewport=SIZE, color_scheme="dark", accept_downloads=True)
        page.set_default_timeout(120_000)
        page.add_init_script(PICTURE)
        _still(page, address, "start.png", MOVED, 700)
        _still(page, f"{address}/tiles?seq=1024&causal=true", "tiles.png", DRAWN)
        _still(page, f"{address}/gpu", "gpu.png", SETTLED)
        page.goto(f"{address}/{FEW}")
        page.wait_for_function(DRAWN)
        page.wait_for_function(SETTLED)
        page.get_by_role("button", name="Download").first.click()
        with page.expect_download() as download:  # the player's own animation
            page.get_by_role("button", name="Player as GIF").click()
        _shrink(Path(download.value.path()), ASSETS / "flash2.gif")


def _still(page: Page, address: str, name: str, drawn: str, *given: float) -> None:
    """A page when it has come to rest."""
    page.goto(address)
    page.wait_for_function(SETTLED)
    page.wait_for_timeout(4000)
    page.wait_for_function(drawn, arg=given[0] if given else None)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    few = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(ASSETS / name, optimize=True)


def _shrink(animation: Path, to: Path) -> None:
    """Every other picture, smaller and in fewer colours, in the same time."""
    pictures, times = [], []
    for number, frame in enumerate(ImageSequence.Iterator(Image.open(animation))):
        if number % 2 == 0:
            pictures.append(frame.convert("RGB").resize((864, 540), Image.Resampling.LANCZOS))
            times.append(0)
        times[-1] += frame.info["duration"]
    palette = pictures[len(pictures) // 2].quantize(128, Image.Quantize.MAXCOVERAGE)
    first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    first.save(to, save_all=True, append_images=others, duration=times, loop=0, optimize=True)


if __name__ == "__main__":
    main()
