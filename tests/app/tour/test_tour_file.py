"""A tour's file is read whole or refused in a sentence; its answers follow the scenario on screen."""

from dataclasses import replace

import pytest

from app import contents
from app.tour import as_file, file, step_words
from app.tour.file import TourError, Way
from engine import simulate
from engine.experiment import Experiment
from engine.studies.answers import Answer, answer
from tests.app.player.test_player_payload import unpack

STEP = {"scenario": "algorithm=flash2&seq=1024", "picture": "player", "question": "How often?"}
STEP |= {"choice": "1\nchoice: query_blocks", "answer": "k_reads"}


def written(text: str = "Some words.", **changed: str | None) -> str:
    """A tour of one step; a value of None leaves its line out."""
    lines = [f"{name}: {value}" for name, value in {**STEP, **changed}.items() if value is not None]
    return "\n".join(["# A tour", "", "## A step", *lines, "", text])


def refused(text: str) -> str:
    with pytest.raises(TourError) as error:
        file.parse(text, "mine.md")
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix("mine.md, ").removeprefix("mine.md: ")


def test_a_step_is_read_with_its_words_before_and_after():
    (step,) = file.parse(written("Before {keys}.\n\n---\n\nAfter."), "mine.md").steps
    assert (step.title, step.before, step.after) == ("A step", "Before {keys}.", "After.")
    assert step.experiment == Experiment.of(algorithm="flash2", seq=1024)
    assert step.said().filled(step.before) == "Before 1,024."
    (step,) = file.parse(written(question=None, choice=None, answer=None), "mine.md").steps
    assert (step.question, step.choices, step.before) == ("", (), "Some words.")  # it may ask nothing


def test_what_the_tiles_ask_for_again_is_not_said_to_come_from_hbm():
    """L2 serves most of it: only what is never asked for is certainly not read from HBM."""
    for step in file.load("attention").steps:
        if "_reads" in step.answer or "_writes" in step.answer:
            assert "HBM" not in step.question or step.said().answer.value == 0


NEW = """# A tour

## A step
scenario: seq=1024
picture: by hand
reveals: player
question: What does it do less of?
choice: "FLOPs" | flash2.flops < standard.flops | Both do {flops}.
choice: "Bytes" | flash2.dram_bytes < standard.dram_bytes
answer: keys

Words.
"""


def test_choices_in_words_have_conditions_and_replies_and_a_picture_of_their_answer():
    (step,) = file.parse(NEW, "mine.md").steps
    assert (step.picture, step.reveals) == ("by hand", "player")
    flops, fewer = step.said().options
    assert (flops.text, fewer.text, fewer.reply) == ("FLOPs", "Bytes", "")
    assert flops.reply == f"Both do {4 * 16 * 1024**2 * 64 / 1e9:.2f} GFLOP."
    assert (fewer.right, flops.right) == (True, False)


def test_a_choice_of_a_number_may_have_a_reply_and_the_step_before_the_answer_keeps_its_picture():
    text = written(choice="1 | Not once, but {k_reads} times.\nchoice: query_blocks")
    (step,) = file.parse(text, "mine.md").steps
    one, right = step.said().options
    assert (one.text, one.reply, right.text, right.reply) == ("1", "Not once, but 16 times.", "16", "")
    assert step.reveals == step.picture == "player"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("flash2.dram_bytes <", "flash2.dram_bytes >", "line 8: 0 choices are true; exactly one must be"),
        ("flash2.flops <", "flash2.flops ==", "line 8: 2 choices are true; exactly one must be"),
        ("flops < standard.flops", "flops", "line 8: choice: 'flash2.flops' is not a cond"),
        ("{flops}", "{flop}", "line 8: choice: 'flop' is not a quantity"),
        ('"Bytes" | flash2.dram_bytes < standard.dram_bytes', "3", "line 9: choices must be all numbers, or"),
        ('choice: "Bytes"', 'choices: "Bytes"', "line 9: 'choices: "),
        ("picture: by hand", "picture: draw time", "line 8: choice must be left out: the"),
        ("reveals: player", "reveals: film", "line 6: reveals is 'film'; it must be one of "),
        ("do less of?", "do {less} of?", "line 7: question: 'less' is not a quantity"),
        ("question: What does it do less of?\n", "", "line 3: the step has no question"),
        ("answer: keys", "answer: " + "1+" * 3000 + "1", "line 10: answer: '1+1"),
        ("answer: keys", "answer: 1e400", "line 10: answer: a number of the expression is beyond 1e+30"),
        ("answer: keys", "answer: 1e20 * 1e20", "line 10: answer: a number of the expression is beyond"),
        ("answer: keys", "minutes: 1 2", "line 10: minutes is '1 2'; it must be 3 whole numbers from 0"),
        ("answer: keys", "minutes: 1 2 91", "line 10: minutes is '1 2 91'; it must be 3 whole numbers"),
        ("answer: keys", "notes: {key}", "line 10: notes: 'key' is not a quantity"),
        ("do less of?", "do ![x](http://a.b) of?", "line 7: '![x](' cannot be shown; a tour holds no"),
        ("do less of?", "do <img src=x> of?", "line 7: '<img src=x>' cannot be shown; a tour holds no"),
        ("do less of?", "do, see https://a.b, of?", "line 7: 'https://' cannot be shown"),
    ],
)
def test_what_is_wrong_in_a_step_names_its_line_in_a_short_sentence(old, new, sentence):
    assert old in NEW
    said = refused(NEW.replace(old, new))
    assert said.startswith(sentence)
    assert len(said) < 300 or "it must be one of " in said


def test_the_chips_memory_is_told_in_the_kb_of_every_other_page():
    experiment = Experiment.of(seq=1024, head_dim=64, block_q=64, block_kv=64)
    told = step_words.filled("{sram_bytes} of {sram_capacity_bytes}", experiment)
    assert f"Fits: {told} of shared memory. " in simulate(experiment).footprint.sentence
    assert told.endswith("of 227 KiB")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: must be the tour's title"),
        ("# A tour\n\nwords", "line 3: ends without a step"),
        (written(answer=None), "line 3: the step has no answer; it must have scenario, "),
        (written(picture="film"), "line 5: picture is 'film'; it must be one of "),
        (written(scenario="seq=0"), "line 4: seq is 0; it must be a whole number from 1 to "),
        (written(scenario="sequence=9"), "line 4: sequence is 9; it must be left out: known are "),
        (written(answer="k_read"), "line 9: answer: 'k_read' is not a quantity; it must be one of "),
        (written(choice="1\nchoice: 2 +"), "line 8: choice: '2 +' is not an expression"),
        (written(choice="16"), "line 7: choices must be 2 to 5 different ones"),
        (written(choice="16\nchoice: query_blocks"), "line 7: choices must be 2 to 5 different ones"),
        (written(choice="1\nchoice: 2"), "line 7: the answer is 16, 0 choices fit; exactly one must be"),
        (written(choice="15\nchoice: 16"), "line 7: the answer is 16, 2 choices fit"),
        (written(choice=None), "line 3: the step has no choice; it must have scenario, "),
        (written("See {k_read}."), "line 11: text: 'k_read' is not a quantity"),
        (written(hint="none"), "line 10: 'hint: none' must be 'name: value' with each of scenario, "),
        (written(unit=""), "line 10: 'unit:' must be 'name: value'"),
        ("# A tour\n" + "x" * file.LARGEST_FILE, "has 200,009 characters; it must have at most "),
    ],
)
def test_a_file_that_cannot_be_shown_names_its_line_and_what_must_be(text, sentence):
    assert refused(text).startswith(sentence)


def test_a_file_that_is_no_text_or_is_not_there_is_a_sentence(tmp_path):
    (tmp_path / "mine.md").write_bytes(b"\xff\xfe\x00")
    for name, sentence in (("mine", "mine.md: cannot be read"), ("../mine", "There is no tour '../mine'")):
        with pytest.raises(TourError, match=sentence):
            file.load(name, tmp_path)


@pytest.mark.parametrize(("name", "steps"), [("attention", range(12, 20)), ("blackwell", range(3, 13))])
def test_every_tour_of_ours_is_whole(name, steps):
    assert len(file.load(name).steps) in steps
    assert file.names() == ["attention", "blackwell"]


def test_every_tour_is_a_page_of_the_static_site_with_files_of_its_own():
    first, second = contents.picture("tour").files("tour")
    assert (first.name, second.name, second.title) == ("tour.html", "blackwell.html", file.title("blackwell"))
    framed = second.draw().framed
    assert len(framed) > 5
    assert all(name.startswith("blackwell-") for name in framed)


def test_a_tour_may_be_one_lecture_as_long_as_its_steps():
    tour = file.load("blackwell")
    (minutes,) = tour.lectures
    assert minutes == sum(step.minutes[0] for step in tour.steps)
    assert tour.lecture(minutes) == list(range(1, len(tour.steps) + 1))
    assert Way(tour, len(tour.steps), minutes).until == minutes
    assert all(step.notes for step in tour.steps if step.question)
    assert file.load("attention").lectures == (45, 15, 90)
    mixed = written(minutes="3") + written(minutes="1 2 3").partition("\n")[2]
    assert "must be of one lecture at every step, or of 3" in refused(mixed)


def test_our_lecture_lasts_15_45_or_90_minutes_and_says_at_every_step_what_to_do():
    tour = file.load("attention")
    for minutes in file.LECTURES:
        last = Way(tour, tour.lecture(minutes)[-1], minutes)
        assert (last.until, last.next) == (minutes, None)
    assert all(step.notes for step in tour.steps)
    left_out = 10
    way = Way(tour, left_out, 15)  # a link leads there all the same
    assert (way.place, way.beside(-1), way.beside(1)) == ("step 7 of 9", 7, 18)


def test_every_wrong_choice_of_ours_is_answered_with_a_sentence():
    for step in (*file.load("attention").steps, *file.load("blackwell").steps):
        assert not step.question or step.picture != step.reveals  # which shows the answer
        for option in step.said().options if step.question else ():
            assert bool(option.reply) != option.right, (step.title, option.text)
            assert option.right or (option.reply[0].isupper() and option.reply.endswith("."))


ALIKE = (  # by hand, and where m first rises: the same whatever the scenario
    *("Online softmax: never look back", "Break it"),
)


def test_no_answer_is_written_down():
    """Each answer follows the scenario: on another recorded one it is computed anew."""
    other = Experiment.of(batch=16, heads=32, seq=1024, head_dim=64, block_q=64, block_kv=128)
    steps = [step for step in file.load("attention").steps if step.answer]
    same = [
        step.title
        for step in steps
        if answer(step.answer, step.experiment)
        == answer(step.answer, other if "recorded" in step.answer else other.changed(hardware="a100"))
    ]
    assert tuple(same) == ALIKE


def test_the_broken_kernel_opens_with_alpha_left_out():
    step = next(each for each in file.load("attention").steps if each.reveals == "broken")
    header, _ = unpack(as_file.drawn("broken", step.experiment).data)
    assert header["begin"] == {"race": False, "flaw": "alpha"}
    assert "wrong.alpha" in {name for name, *_ in header["arrays"]}  # the wrong O comes along


def test_the_nearest_choice_is_by_ratio_and_equal_choices_are_one():
    (step,) = file.parse(written(), "mine.md").steps
    one_block = Experiment.of(seq=16)
    assert len(step.said(one_block).options) == 1
    for wanted, nearest in (("31", "10"), ("32", "100")):
        choices = tuple(map(step_words.Choice, ("10", "100")))
        assert replace(step, choices=choices, answer=wanted).said().right == nearest


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (0, "times", "never"),
        (1, "times", "once"),
        (2.0, "times", "twice"),
        (3, "times", "3 times"),
        (1.5, "times", "1.5 times"),
        (1, "×", "1×"),
        (32.94, "×", "32.9×"),
        (0.515625, "% of the tiles", "51.6% of the tiles"),
        (0.999, "% as long", "99.9% as long"),
        (1, "", "1"),
        (5.24e-8, "at most", "5.2·10⁻⁸ at most"),
        (32.94, "× fewer bytes", "32.9× fewer bytes"),
    ],
)
def test_counts_are_words_ratios_have_their_sign_and_shares_are_per_cent(value, unit, told):
    assert step_words.text(Answer(value, "", "counted"), unit) == told


def test_a_count_within_a_text_is_a_word_too_and_few_digits_have_no_exponent():
    assert step_words.text(Answer(0.9996, "", "counted"), "% as long", 2) == "100% as long"
    experiment = Experiment.of(algorithm="flash2", seq=1024)
    assert step_words.filled("O is written {o_writes} times, K read {k_reads} times.", experiment) == (
        "O is written once, K read 16 times."
    )
