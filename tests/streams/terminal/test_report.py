import io

import pytest
from rich.console import Console

from streams.terminal.report import table

HEADINGS = ("node", "rounds", "regret/T", "epsilon\nof a record", "epsilon\nof the stream", "malformed")
ROWS = [("bank-a", "2,000", "0.1234", "1", "2,000", "12"), ("bank-b", "1", "-3.1", "none", "none", "0")]


def printed(width):
    console = Console(file=io.StringIO(), width=width)
    console.print(table(HEADINGS, ROWS, "fraud, run run-1"))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_table_stands_where_there_is_room():
    lines = printed(80)
    assert lines[0] == "fraud, run run-1"
    (first,) = [line for line in lines if "bank-a" in line]
    assert [cell.strip() for cell in first.split("│")[1:-1]] == list(ROWS[0])


@pytest.mark.parametrize("width", [24, 40])
def test_on_a_narrow_terminal_each_row_is_a_list_and_nothing_is_cut(width):
    lines = printed(width)
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    assert "fraud, run run-1" in lines
    assert [line for line in lines if line.startswith("bank")] == ["bank-a", "bank-b"]
    assert lines[2].split() == ["rounds", "2,000"]
    assert "".join(lines).count("malformed") == 2
