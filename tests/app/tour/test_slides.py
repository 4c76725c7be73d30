"""A tour as slides, read by the library that others read them with."""

from io import BytesIO

import pytest

from app.gallery.picture import Drawn
from app.shapes.square import SQUARE, cutting
from app.tour import file
from app.tour.file import Way
from engine.experiment import Experiment
from engine.studies.survey import cuts

pptx = pytest.importorskip("pptx", reason="python-pptx is not installed: it comes with the extra `slides`")
from PIL import Image  # noqa: E402

from app.tour import slides  # noqa: E402

MINUTES = 15
MEDIA = pptx.enum.shapes.MSO_SHAPE_TYPE.MEDIA


def shot(size=(160, 90)) -> slides.Shot:
    out = BytesIO()
    Image.new("RGB", size, "white").save(out, "PNG")
    return slides.Shot(out.getvalue(), b"a film")


def deck(tour, dark=False):
    made = slides.made(tour, MINUTES, dark, lambda picture, title: shot(), lambda text: None)
    return pptx.Presentation(BytesIO(made))


def words(shape) -> str:
    return shape.text_frame.text if shape.has_text_frame else ""


def test_a_lecture_is_a_slide_for_each_question_and_each_answer_with_a_film_and_notes():
    tour = file.load("attention")
    steps = [tour.steps[number - 1] for number in tour.lecture(MINUTES)]
    made = deck(tour)
    asked = [step for step in steps if step.question]
    assert len(made.slides) == 1 + len(steps) + len(asked)
    titles = [slide.shapes.title.text for slide in made.slides]
    assert titles[0] == tour.title
    for step in asked:
        at = titles.index(step.title)
        question, told = made.slides[at], made.slides[at + 1]
        notes = question.notes_slide.notes_text_frame.text
        way = Way(tour, tour.steps.index(step) + 1, MINUTES)
        assert notes.startswith(f"{step.takes(MINUTES)} min, until {way.until}:00.")
        assert "The answer: " in notes
        assert told.shapes.title.text.startswith(step.title)
        assert len(told.notes_slide.notes_text_frame.text) > 100
        for slide in (question, told):
            (film,) = [shape for shape in slide.shapes if shape.shape_type == MEDIA]  # one idea
            assert film.left >= 0
            assert film.left + film.width <= made.slide_width
            assert film.top + film.height <= made.slide_height
            assert film.width / film.height == pytest.approx(16 / 9, rel=0.01)
    for slide in made.slides:
        said = "".join(map(words, slide.shapes)) + slide.notes_slide.notes_text_frame.text
        assert not {"**", "```", "{", "$"} & {mark for mark in ("**", "```", "{", "$") if mark in said}


def test_markdown_is_words_on_a_slide():
    markdown = "**S** is `N`.\nNot [more](tiles)\n\n```python\nx = 1\n```\nEnd."
    assert slides.plain(markdown) == "S is N. Not more\n\nEnd."


MOVING = cutting(cuts(Experiment.of(seq=16384, head_dim=128))[:2])
STILL = Drawn("<p>Words alone</p>")


@pytest.mark.browser
@pytest.mark.parametrize("encodes", [True, False])
def test_a_camera_takes_what_moves_as_a_film_and_what_stands_as_a_picture(encodes, monkeypatch):
    """A browser without an encoder is helped by the extra's; of few pictures a second, else."""
    av = pytest.importorskip("av", reason="av is not installed: it comes with the extra `slides`")
    script, few = slides.bundle(slides.FILMS), 3
    slow = script.replace("FILM_RATE = 30", f"FILM_RATE = {few}")
    assert slow != script
    monkeypatch.setattr(slides, "bundle", lambda file: slow)
    monkeypatch.setattr(slides, "RATE", few)
    if not encodes:
        none = slides.FILMED.replace("{", "{ delete globalThis.VideoEncoder;", 1)
        monkeypatch.setattr(slides, "FILMED", none)
    try:
        with slides.camera() as shoot:
            film, still = (shoot(each, "a picture") for each in (Drawn(moving=SQUARE, data=MOVING), STILL))
    except file.TourError as error:
        pytest.skip(f"no Chromium that starts: {error}")
    assert Image.open(BytesIO(film.image)).size == (1920, 1080)
    width, height = Image.open(BytesIO(still.image)).size
    assert 100 < width < 400
    assert height < 50
    assert not still.film
    with av.open(BytesIO(film.film)) as made:
        stream = made.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert (stream.width, stream.height) == (1920, 1080)
        pictures = [picture.to_ndarray(format="gray") for picture in made.decode(video=0)]
    assert len(pictures) >= 4 * few
    assert abs(pictures[0].astype(int) - pictures[-1]).mean() > 1  # it moves
