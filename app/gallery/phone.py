"""What a phone sees of a page or a step, as one offline document, made in a process of its own.

The tour's pictures are drawn by their own functions with a stand-in for Streamlit, which other visitors of
the same process would meet.
"""

import gzip
import logging
import re
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from app import contents
from app.gallery.picture import Drawn
from engine.experiment import Experiment, ExperimentError
from engine.studies.answers import AnswerError
from engine.worker.jobs import JobError, Update

LARGEST = 2_000_000  # bytes of a document, compressed
LINK = re.compile(r"</?a\b[^>]*>")  # a phone stays where it is: what a link says remains
STYLE = (
    "body { padding: 4px 14px 0 !important; } .prose { padding-bottom: 1rem; } "
    "@media (max-width: 480px) { html { font-size: 17.8px; } .sms i { font-size: 0; } "  # no type below 14 px
    ".scroll :is(td, th) { padding: 5px 3px !important; font-size: 0.8rem; } }"
)
# The phone's page makes as much room as the document takes.
TALL = """<script>
const tell = () => parent.postMessage(document.documentElement.offsetHeight, "*");
new ResizeObserver(tell).observe(document.body);
</script>"""


def draw(payload: dict[str, Any]) -> Generator[Update, None, bytes]:
    """The document that a room wants, compressed; a job of the worker process. Raises JobError."""
    yield Update(0.0, "drawing")
    logging.disable(logging.WARNING)  # Streamlit misses a session at every call
    name = payload["page"]
    try:
        experiment = Experiment.of(**payload["values"])
        text = in_document(name, contents.picture(name).of(experiment, **payload.get("asked", {})))
    except (AnswerError, ExperimentError) as error:
        raise JobError(f"This picture cannot be computed: {error}.") from None
    finally:
        logging.disable(logging.NOTSET)
    packed = gzip.compress(text.encode(), 6, mtime=0)
    if len(packed) > LARGEST:
        raise JobError(f"This picture has {len(packed):,} bytes; a phone gets at most {LARGEST:,}.")
    return packed


def in_document(page: str, drawn: Drawn) -> str:
    """A document for a phone or a frame, with a picture between words, which tells how tall it is."""
    says = f"<p>{drawn.says}</p>" * bool(drawn.says)
    html, below = (
        LINK.sub("", f"<div class='prose'>{part}</div>") for part in (says + drawn.html, drawn.below)
    )
    return replace(drawn, html=html, below=below).document(drawn.title or page, below=TALL, style=STYLE)
