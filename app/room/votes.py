"""Votes in memory: one per voter and question, of which the last counts."""

import csv
import io
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

# voters of one question from one address, phones that have left too, and from all
MOST_QUESTIONS, MOST_VOTERS, MOST_VOTES = 200, 2000, 20_000
# a cell that begins so, maybe behind what is not seen, is a formula to a spreadsheet
FORMULA = re.compile(r"[\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠]|[\t\r]")
Vote = int | tuple[int, ...]  # a choice, or a curve that was drawn
DRAWN = "drawn"  # what stands for the choices of a question that is answered so


@dataclass(frozen=True)
class Question:
    """What the room is asked, where in the lecture, and the choices, as plain text; none where it draws."""

    place: str
    text: str
    choices: tuple[str, ...]


class Ballots:
    """Who chose what, by the number that a question gets when it is asked."""

    def __init__(self):
        self._numbers: dict[Question, int] = {}  # as they were asked last
        self._asked: dict[int, Question] = {}
        self._votes: dict[int, dict[str, Vote]] = {}
        self._places: dict[int, dict[str, str]] = {}  # of each who voted, the address
        self._count = 0

    def number(self, question: Question) -> int:
        """The number of a question, from 1 on; beyond MOST_QUESTIONS the oldest is forgotten."""
        if question not in self._numbers:
            if len(self._asked) == MOST_QUESTIONS:
                self._forget(next(iter(self._asked)))
            self._count += 1
            self._numbers[question], self._asked[self._count] = self._count, question
            self._votes[self._count], self._places[self._count] = {}, {}
        return self._numbers[question]

    def _forget(self, number: int) -> None:
        question = self._asked.pop(number)
        del self._votes[number], self._places[number]
        if self._numbers.get(question) == number:
            del self._numbers[question]

    def ask_anew(self, question: Question) -> None:
        """Let it have another number, and no votes yet; those that it has are kept."""
        self._numbers.pop(question, None)

    def cast(self, number: int, voter: str, choice: Vote, place: str = "") -> None:
        """Count a vote, or a curve, in place of what the voter chose before.

        Where an address has very many, or all have, its oldest goes, or that of the address that has most.
        """
        votes, places = self._votes[number], self._places[number]
        if voter not in votes:
            held = Counter(places.values())
            crowd = place if held[place] >= MOST_VOTERS else ""
            if not crowd and len(votes) >= MOST_VOTES:
                crowd = held.most_common(1)[0][0]
            if crowd:
                gone = next(each for each, of in places.items() if of == crowd)
                del votes[gone], places[gone]
        votes[voter], places[voter] = choice, place

    def crowd(self, number: int) -> int:
        """Votes from the address that has most of them."""
        return max(Counter(self._places[number].values()).values(), default=0)

    def counts(self, number: int) -> list[int]:
        """Votes for each choice; where there is none, how many have drawn."""
        votes, choices = list(self._votes[number].values()), self._asked[number].choices
        return [votes.count(choice) for choice in range(len(choices))] if choices else [len(votes)]

    def curves(self, number: int) -> list[Vote]:
        """What was drawn, a curve of each voter."""
        return list(self._votes[number].values())

    def of(self, voter: str) -> dict[int, Vote]:
        """What a voter has chosen, by the question's number."""
        return {number: votes[voter] for number, votes in self._votes.items() if voter in votes}

    def asked(self) -> dict[int, Question]:
        """Every question by its number, in the order of asking."""
        return self._asked


def sheet(rows: Sequence[tuple[Question, Sequence[int], Sequence[int]]]) -> str:
    """A CSV file of questions with votes of phones and of raised hands; no cell of it is a formula."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["step", "question", "choice", "votes by phone", "votes by hand"])
    for question, phones, hands in rows:
        choices = question.choices or (DRAWN,)
        for choice, by_phone, by_hand in zip_longest(choices, phones, hands, fillvalue=0):
            writer.writerow([*map(defused, (question.place, question.text, choice)), by_phone, by_hand])
    return "\ufeff" + out.getvalue()  # by which Excel knows UTF-8


def defused(text: str) -> str:
    """A cell that no spreadsheet computes."""
    return f"'{text}" if FORMULA.match(text) else text


class Bucket:
    """So many at once, and so many per second after that."""

    def __init__(self, at_once: float, per_second: float, clock: Callable[[], float] = time.monotonic):
        self._most, self._rate, self._clock = at_once, per_second, clock
        self._left, self._then = at_once, clock()

    def take(self) -> bool:
        """Take one, if one is left."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._then) * self._rate)
        self._then = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
