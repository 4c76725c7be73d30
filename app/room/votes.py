"""Votes in memory: one per voter and question, of which the last counts."""

import csv
import io
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, zip_longest

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


@dataclass
class Ballot:
    """A question by the number that it got when it was asked, who asked, and who chose what from where."""

    number: int
    question: Question
    by: object
    hands: tuple[int, ...] = ()  # votes by choice that the presenter counted
    votes: dict[str, tuple[Vote, str]] = field(default_factory=dict)  # by voter, each with an address

    def cast(self, voter: str, choice: Vote, place: str = "") -> None:
        """Count a vote, or a curve, in place of what the voter chose before.

        Where an address has very many, or all have, its oldest goes, or that of the address that has most.
        """
        if voter not in self.votes:
            held, full = self._held(), len(self.votes) >= MOST_VOTES
            if held[place] >= MOST_VOTERS or full:
                crowd = place if held[place] >= MOST_VOTERS else held.most_common(1)[0][0]
                del self.votes[next(each for each, (_, of) in self.votes.items() if of == crowd)]
        self.votes[voter] = choice, place

    def _held(self) -> Counter[str]:
        return Counter(place for _, place in self.votes.values())

    @property
    def crowd(self) -> int:
        """Votes from the address that has most of them."""
        return max(self._held().values(), default=0)

    @property
    def chosen(self) -> list[Vote]:
        """What was chosen, or drawn, by each voter."""
        return [choice for choice, _ in self.votes.values()]

    @property
    def counts(self) -> list[int]:
        """Votes of phones for each choice; where there is none, how many have drawn."""
        choices = range(len(self.question.choices))
        return [*map(self.chosen.count, choices)] if choices else [len(self.votes)]

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        """Each choice with its votes of phones and of hands."""
        choices = self.question.choices or (DRAWN,)
        return list(zip_longest(choices, self.counts, self.hands[: len(choices)], fillvalue=0))


class Ballots:
    """Every question that was asked: the latest MOST_QUESTIONS of them, by number."""

    def __init__(self):
        self.every: dict[int, Ballot] = {}
        self._latest: dict[Question, Ballot] = {}
        self._numbers = count(1)

    def of(self, question: Question, by: object, *, stands: bool = False) -> Ballot:
        """A question's ballot; a new one for another who asks it, unless it stands on the screen already.

        Another lecture in the same room has another audience, and a window that was loaded again has not.
        """
        found = self._latest.get(question)
        if found is None or not (stands or found.by is by):
            if len(self.every) == MOST_QUESTIONS:
                oldest = self.every.pop(next(iter(self.every)))
                if self._latest[oldest.question] is oldest:
                    del self._latest[oldest.question]
            number = next(self._numbers)
            found = self.every[number] = self._latest[question] = Ballot(number, question, by)
        found.by = by
        return found

    def mine(self, voter: str) -> dict[int, Vote]:
        """What a voter has chosen, by the question's number."""
        return {each.number: each.votes[voter][0] for each in self.every.values() if voter in each.votes}

    def sheet(self) -> str:
        """A CSV file of questions with votes of phones and of raised hands; no cell of it is a formula."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["step", "question", "choice", "votes by phone", "votes by hand"])
        for one in self.every.values():
            for choice, *votes in one.rows:
                writer.writerow([*map(defused, (one.question.place, one.question.text, choice)), *votes])
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
