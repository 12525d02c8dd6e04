import pytest

from streams.terminal import report as progress_bars
from tests.support.processes.terminal import pretend


@pytest.mark.parametrize(
    ("most", "bad", "line"),
    [(None, 0, "line 1,200"), (5000, 1, "line 1,200 of 5,000, 1 bad record")],
)
def test_without_a_terminal_it_is_a_line_now_and_then(capsys, monkeypatch, most, bad, line):
    monkeypatch.setattr(progress_bars, "PERIOD", 0.0)
    with progress_bars.shown(most) as tell:
        tell(1200, bad)
    assert capsys.readouterr() == ("", f"{line}\n")


def test_most_of_the_time_it_says_nothing(capsys):
    with progress_bars.shown(None) as tell:
        for held in range(1000):
            tell(held, 0)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_it_is_a_bar(capsys, monkeypatch):
    pretend(monkeypatch)
    monkeypatch.setattr(progress_bars, "_REDRAWN", 1e-9)
    with progress_bars.shown(5000) as tell:
        for held in range(2000):
            tell(held, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "/5000" in err
    assert "3 bad" in err
