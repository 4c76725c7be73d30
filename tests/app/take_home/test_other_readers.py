"""Files to take home, read by those who read such files: a GIF by Pillow, a CSV by Python's own module."""

import base64
import csv
import io
import json
from itertools import product

import numpy as np
import pytest

from tests.js.test_scripts import node

# pictures of RGBA, a pixel a number of 0xAABBGGRR, on standard input; the file in base64 on standard output
ENCODE = """
import { commonColours, GifEncoder } from "./app/take_home/gif.js";
let text = "";
for await (const part of process.stdin) text += part;
const { width, height, pictures, hundredths } = JSON.parse(text),
  films = pictures.map((picture) => Uint32Array.from(picture)),
  gif = new GifEncoder(width, height, commonColours(films));
films.forEach((picture, n) => gif.add(picture, hundredths[n]));
process.stdout.write(Buffer.from(await gif.finish().arrayBuffer()).toString("base64"));
"""


def printed(script: str, given: str = "") -> str:
    """What Node.js prints for a module at the root, given something to read."""
    ended = node("--input-type=module", "-e", script, given=given)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def encoded(pictures: list[np.ndarray], hundredths: list[int]) -> bytes:
    """The GIF of pictures [height, width, 3] uint8 by the browser's own encoder."""
    height, width, _ = pictures[0].shape
    opaque = [np.dstack([picture, np.full((height, width), 255, np.uint8)]) for picture in pictures]
    numbers = [np.ascontiguousarray(picture).view("<u4").ravel().tolist() for picture in opaque]
    asked = {"width": width, "height": height, "pictures": numbers, "hundredths": hundredths}
    return base64.b64decode(printed(ENCODE, json.dumps(asked)))


def test_pillow_reads_the_pictures_that_were_encoded_and_how_long_each_stands():
    """Colours far apart, so that each keeps its own; noise, so that codes grow to 12 bits and begin anew."""
    image = pytest.importorskip("PIL.Image")  # it comes with Streamlit
    tones = np.array([*product((8, 96, 240), (16, 128, 248), (0, 80, 200))], np.uint8)
    draw = np.random.default_rng(0)
    first = tones[draw.integers(0, len(tones), (90, 120))]
    second = first.copy()
    second[20:31, 70:90] = tones[draw.integers(0, len(tones), (11, 20))]
    third = second.copy()
    third[5, 7] = tones[(tones == third[5, 7]).all(1).argmin()]
    pictures, hundredths = [first, second, second, third], [8, 8, 50, 208]
    gif = image.open(io.BytesIO(encoded(pictures, hundredths)))
    assert (gif.format, gif.n_frames, gif.size, gif.info["loop"]) == ("GIF", 4, (120, 90), 0)
    for number, picture in enumerate(pictures):
        gif.seek(number)
        assert gif.info["duration"] == 10 * hundredths[number]  # milliseconds
        np.testing.assert_array_equal(np.asarray(gif.convert("RGB")), picture)


# the tile visits of the toy that tests/js/payload.js describes, as the player writes them
VISITS = """
import { visitsCsv } from "./app/player/visits_csv.js";
import { Model } from "./app/player/model.js";
import { toy } from "./tests/js/payload.js";
const model = new Model(toy());
process.stdout.write(Buffer.from(await visitsCsv({ model, run: model.run }).arrayBuffer()));
"""


def test_the_csv_module_reads_a_row_for_each_visit_with_its_numbers():
    """A query tile loads Q, 32 B; its visits K and V, 64 B each of the first key tile and 32 of the last."""
    text = printed(VISITS)
    assert text.startswith("\ufeff")  # by which Excel knows UTF-8
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True))
    assert [row["visit"] for row in rows] == ["1", "2", "3", "4"]
    tiles = [(row["query tile"], row["key tile"]) for row in rows]
    assert tiles == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]

    def column(name: str) -> list[float]:
        return [float(row[name]) for row in rows]

    # until the next visit begins: with what is stored of this query tile, and Q of the next
    assert column("read from L2 (bytes)") == [160, 256, 384, 448]
    assert column("written to L2 (bytes)") == [0, 40, 40, 80]  # O and lse of a query tile: 32 B and 8 B
    assert column("of both across HBM, modelled (bytes)") == [96, 200, 264, 336]  # of K and V half
    assert column("modelled time (s)") == pytest.approx([12e-6, 28e-6, 36e-6, 48e-6])
    assert (rows[1]["m"], rows[1]["l"], rows[1]["α"]) == ("2", "3", "1")  # of row 1, after all six keys
