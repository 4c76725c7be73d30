"""A tour as slides: an idea each, its picture as a film, and what to say in the speaker's notes."""

from __future__ import annotations

import os
import re
import shutil
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO

from app.canvas.bundle import bundle
from app.figures.colours import DARK, LIGHT
from app.gallery.picture import Drawn
from app.take_home import FILMS
from app.tour.as_file import drawn
from app.tour.file import Tour, TourError, Way

with suppress(ImportError):  # what comes with the extra `slides`, for which the command asks first
    from PIL import Image, ImageChops
    from playwright.sync_api import Browser, Error, sync_playwright
    from pptx import Presentation
    from pptx.dml.color import RGBColor
    from pptx.util import Inches, Pt

    import av  # isort: skip

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
NO_BROWSER = (
    "Slides need a Chromium, Chrome or Edge, which draws their pictures; CHROMIUM names one elsewhere"
)
WIDE, HIGH, EDGE = 13.333, 7.5, 0.45  # inches
STILL = {"width": 760, "height": 620}  # px of the window in which a picture that stands still is drawn
LONG_TITLE, LONG = 44, 500  # characters, beyond which words are set smaller
POSTER = 0.6  # of a film, whose picture stands until it plays
MARKS = re.compile(r"\*\*|`|\$|^#+ ", re.MULTILINE)  # of Markdown, which a slide shows none of
RATE = 15  # pictures a second of a film that the browser cannot encode
# the film of the page's player in base64, where the browser can encode one, and how many pictures it has
FILMED = """async ([script, rate]) => {
    const module = URL.createObjectURL(new Blob([script], { type: "text/javascript" })),
        { default: filmFiles } = await import(module),
        { player } = document.querySelector(".player, .inside"),
        film = await filmFiles(player).MP4().catch(() => new Blob()),
        still = await player.takeHome.film({ hall: true, dpr: 1.5 }),
        reader = new FileReader();
    still.play(film.size ? 30 : rate);
    window.drawn = (n) => {
        still.show(n);
        return still.canvas.toDataURL("image/jpeg", 0.95).split(",")[1];
    };
    await new Promise((done) => Object.assign(reader, { onload: done }).readAsDataURL(film));
    return [reader.result.split(",")[1] ?? "", still.count];
}"""


@dataclass(frozen=True)
class Shot:
    """A picture as a slide takes it, and beside it a film where it moves, an MP4."""

    image: bytes
    film: bytes = b""


@contextmanager
def camera(dark: bool = False) -> Iterator[Callable[[Drawn, str], Shot]]:
    """What takes pictures, in a browser of its own; raises TourError where there is none."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    root = getattr(os, "geteuid", lambda: 1)() == 0  # whose browser has no sandbox
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] * root)
        except Error as error:
            raise TourError(f"{NO_BROWSER} ({str(error).splitlines()[0]})") from None
        try:
            yield lambda picture, title: _shot(browser, picture, title, "dark" if dark else "light")
        finally:
            browser.close()


def _shot(browser: Browser, picture: Drawn, title: str, theme: str) -> Shot:
    """One picture, at an address that a browser takes for secure and that leads nowhere else."""
    text = picture.document(title)
    options = {"viewport": STILL, "device_scale_factor": 2, "color_scheme": theme, "bypass_csp": True}
    with browser.new_page(reduced_motion="reduce", **options) as page:
        page.route("http://localhost/", lambda route: route.fulfill(body=text, content_type="text/html"))
        page.goto("http://localhost/")
        if page.evaluate("Boolean(document.querySelector('.player')?.player)"):
            film, count = page.evaluate(FILMED, [bundle(FILMS), RATE])
            pictures = (b64decode(page.evaluate("(n) => drawn(n)", n)) for n in range(count))
            poster = b64decode(page.evaluate("(n) => drawn(n)", round(POSTER * (count - 1))))
            return Shot(poster, b64decode(film) or _encoded(pictures, Image.open(BytesIO(poster)).size))
        return Shot(_trimmed(page.locator("main").screenshot()))


def _encoded(pictures: Iterable[bytes], size: tuple[int, int]) -> bytes:
    """Pictures of a size as an MP4 of H.264."""
    out = BytesIO()
    with av.open(out, "w", format="mp4") as film:
        stream = film.add_stream("libx264", rate=RATE, pix_fmt="yuv420p")
        stream.width, stream.height = size
        for picture in map(Image.open, map(BytesIO, pictures)):
            film.mux(stream.encode(av.VideoFrame.from_image(picture)))
        film.mux(stream.encode())
    return out.getvalue()


def _trimmed(png: bytes) -> bytes:
    """A picture without the ground around it."""
    picture, out = Image.open(BytesIO(png)).convert("RGB"), BytesIO()
    ground = Image.new("RGB", picture.size, picture.getpixel((0, 0)))
    picture.crop(ImageChops.difference(picture, ground).getbbox()).save(out, "PNG")
    return out.getvalue()


def made(
    tour: Tour, minutes: int, dark: bool, shoot: Callable[[Drawn, str], Shot], told: Callable[[str], None]
) -> bytes:
    """The slides of a lecture of so many minutes, as a PPTX file.

    `shoot` takes a picture, see `camera`, and `told` hears what is being made.
    """
    deck = Deck(dark)
    deck.add(tour.title, tour.about)
    numbers = tour.lecture(minutes)
    for at, number in enumerate(numbers, 1):
        way = Way(tour, number, minutes)
        step, said = way.step, way.step.said()
        told(f"{at} of {len(numbers)}: {step.title}")
        before, after, notes = (plain(said.filled(text)) for text in (step.before, step.after, step.notes))
        notes = f"{step.takes(minutes)} min, until {way.until}:00. " * bool(step.takes(minutes)) + notes
        first = shoot(drawn(step.picture, step.experiment), step.title)
        if not step.question:
            deck.add(step.title, f"{before}\n\n{after}", notes=notes)
            continue
        right = plain(said.right)
        choices = [f"{n}  {plain(each.text)}" for n, each in enumerate(said.options, 1)]
        asked = "\n".join([plain(said.filled(step.question)), *choices])
        wrong = [f"{plain(each.text)}: {plain(each.reply)}" for each in said.options if each.reply]
        deck.add(step.title, asked, first, f"{notes}\n\n{before}\n\nThe answer: {right}.")
        second = first
        if step.reveals != step.picture:
            second = shoot(drawn(step.reveals, step.experiment), step.title)
        if said.answer:
            right = said.value + f", {said.answer.origin}" * (said.answer.origin != "given")
        mark = "" if step.title.endswith("?") else ":"
        deck.add(
            f"{step.title}{mark} {right}" if right else step.title, "", second, "\n\n".join([after, *wrong])
        )
    return deck.file()


def plain(markdown: str) -> str:
    """Markdown as a slide shows words: without code, a link as its words, the lines of a paragraph as one."""
    text = re.sub(r"^```.*?^```\n?", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = MARKS.sub("", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text).strip()


class Deck:
    """Slides as they are added, each of a title, words and a picture."""

    def __init__(self, dark: bool):
        self.deck, self.colours = Presentation(), DARK if dark else LIGHT
        self.deck.slide_width, self.deck.slide_height = Inches(WIDE), Inches(HIGH)

    def add(self, title: str, words: str = "", shot: Shot | None = None, notes: str = "") -> None:
        """Words stand at the left of a picture; without them it takes the slide."""
        slide = self.deck.slides.add_slide(self.deck.slide_layouts[5])  # a title alone
        slide.background.fill.solid()
        slide.background.fill.fore_color.rgb = RGBColor.from_string(self.colours.ground[1:])
        heading = slide.shapes.title
        heading.left, heading.top, heading.width, heading.height = map(
            Inches, (EDGE, 0.2, WIDE - 2 * EDGE, 0.8)
        )
        self._write(heading.text_frame, title, 32 if len(title) < LONG_TITLE else 25, bold=True)
        left, top = EDGE, 1.1
        if words:
            box = slide.shapes.add_textbox(*map(Inches, (left, top, 4.3 if shot else WIDE - 2 * EDGE, 5.8)))
            box.text_frame.word_wrap = True
            self._write(box.text_frame, words, 22 if len(words) < LONG else 18)
            left += 4.6 * bool(shot)
        if shot:
            self._picture(slide, shot, left, top, WIDE - EDGE - left, HIGH - 0.3 - top)
        slide.notes_slide.notes_text_frame.text = notes

    def _write(self, frame, words: str, size: int, bold: bool = False) -> None:
        frame.text = words
        for paragraph in frame.paragraphs:
            paragraph.space_after, paragraph.alignment = Pt(6), 1
            paragraph.font.size, paragraph.font.bold = Pt(size), bold
            paragraph.font.color.rgb = RGBColor.from_string(self.colours.ink[1:])

    def _picture(self, slide, shot: Shot, left: float, top: float, wide: float, high: float) -> None:
        """As large as the room allows, in its middle."""
        picture = slide.shapes.add_picture(BytesIO(shot.image), 0, 0)
        scale = min(Inches(wide) / picture.width, Inches(high) / picture.height)
        width, height = round(scale * picture.width), round(scale * picture.height)
        place = (
            Inches(left) + (Inches(wide) - width) // 2,
            Inches(top) + (Inches(high) - height) // 2,
            width,
            height,
        )
        if shot.film:
            picture._element.getparent().remove(picture._element)
            slide.shapes.add_movie(BytesIO(shot.film), *place, BytesIO(shot.image), "video/mp4")
            return
        picture.left, picture.top, picture.width, picture.height = place

    def file(self) -> bytes:
        """The PPTX."""
        out = BytesIO()
        self.deck.save(out)
        return out.getvalue()
