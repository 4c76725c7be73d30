"""Every planted fault has its place: `python -m tests.mutants` runs the tests against each of them."""

import pytest

from tests.mutants import MUTANTS, Mutant, main


def test_every_mutant_can_be_planted_in_one_place_and_changes_something():
    assert [fault for one in MUTANTS if (fault := one.fault())] == []
    assert all(one.before != one.after and one.why for one in MUTANTS)
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) == 60


@pytest.mark.parametrize(
    ("file", "before", "tests", "said"),
    [
        ("no.py", "1", (), "a: no.py is no longer there."),
        ("some.py", "2", (), "a: its text occurs 0 times in some.py; it must occur once."),
        ("some.py", "1", (), "a: its text occurs 2 times in some.py; it must occur once."),
        ("some.py", "0", ("tests/test_no.py",), "a: tests/test_no.py is no longer there."),
    ],
)
def test_what_cannot_be_planted_is_one_sentence(tmp_path, file, before, tests, said):
    (tmp_path / "some.py").write_text("0 1 1\n")
    assert Mutant("a", "a wrong number", file, tests, before, "3").fault(tmp_path) == said


def test_a_name_that_none_has_is_one_line_and_exit_code_2(capsys):
    assert main(["--only", "no such name"]) == 2
    assert capsys.readouterr().err == "only is 'no such name'; no mutant's name begins so\n"
