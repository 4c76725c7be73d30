"""Votes in memory: how many count, which are forgotten, and the file that they are taken home in."""

import csv
import io

from app.room import votes
from app.room.votes import Ballots, Bucket, Question, defused

QUESTION = Question("step 1 of 2", "How often?", ("once", "twice", "never"))


def test_so_many_at_once_and_so_many_per_second():
    now = [0.0]
    bucket = Bucket(3, 0.5, lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] = 2.0
    assert [bucket.take() for _ in range(2)] == [True, False]


def test_the_oldest_question_is_forgotten_and_the_same_question_keeps_its_votes():
    ballots = Ballots()
    ballots.of(QUESTION, None).cast("phone", 0)
    for n in range(votes.MOST_QUESTIONS - 1):
        ballots.of(Question(f"step {n}", "?", ("a", "b")), None)
    assert ballots.of(QUESTION, None).counts == [1, 0, 0]
    ballots.of(Question("last", "?", ("a", "b")), None)
    assert ballots.of(QUESTION, None).counts == [0, 0, 0]
    assert len(ballots.every) == votes.MOST_QUESTIONS


def test_votes_of_one_question_take_so_much_memory_and_no_more(monkeypatch):
    monkeypatch.setattr(votes, "MOST_VOTERS", 2)
    monkeypatch.setattr(votes, "MOST_VOTES", 3)
    ballot = Ballots().of(QUESTION, None)
    for voter in "abc":
        ballot.cast(voter, 0, "one address")
    assert ballot.counts == [2, 0, 0]
    ballot.cast("c", 1, "one address")  # the same voter
    assert ballot.counts == [1, 1, 0]
    for voter in "de":
        ballot.cast(voter, 2, f"the address of {voter}")
    assert ballot.counts == [0, 1, 2], "the address that has most gives way"
    assert ballot.crowd == 1


def test_no_cell_of_the_votes_is_a_formula():
    ballots = Ballots()
    ballot = ballots.of(Question("=1+1", '@now, "quoted"', ("-2", "+3", "plain")), None)
    ballot.hands = (0, 0, 4)
    for voter, choice in enumerate((0, 1, 1, 2)):
        ballot.cast(f"{voter}", choice)
    rows = list(csv.reader(io.StringIO(ballots.sheet().removeprefix("\ufeff"))))
    assert rows[1:] == [
        ["'=1+1", '\'@now, "quoted"', "'-2", "1", "0"],
        ["'=1+1", '\'@now, "quoted"', "'+3", "2", "0"],
        ["'=1+1", '\'@now, "quoted"', "plain", "1", "4"],
    ]
    for formula in ("\t=1", " =1", "\u00a0\n@a", "\u200b=1", "\ufeff+1", "＝1", "\x00=1"):
        assert defused(formula) == f"'{formula}"
    assert defused("1 = 1") == "1 = 1"
