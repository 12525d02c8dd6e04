"""`mirrormesh end`, as far as it goes without a broker; with one: tests/kafka/test_lost_plans.py."""

import pytest

from streams.cli import operate as end


def test_where_nobody_can_be_asked_the_option_must_be_given(call, mesh):
    code, out, err = call("end", mesh.name)
    assert (code, out) == (2, "")
    assert "--yes: must be given where nobody can be asked" in err


@pytest.mark.parametrize(("answer", "ended"), [("y", ["small"]), ("n", [])])
def test_it_asks_before_it_ends_a_run_for_good(call, mesh, monkeypatch, answer, ended):
    found = []
    monkeypatch.setattr(end.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(end.typer, "confirm", lambda text, abort: None if answer == "y" else _abort(text))
    monkeypatch.setattr(end, "live", lambda *_: found.append("small"))
    code = call("end", mesh.name).code
    assert found == ended
    assert bool(code) is (answer == "n")


def _abort(text):
    assert text == "End run run-1 of mesh small, for good?"
    raise end.typer.Abort
