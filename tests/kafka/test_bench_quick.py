"""`make bench-kafka` works: a small run has a number in every place of its tables. How fast is not asked."""

import math
import re

import pytest

from tests.benchmarks.kafka import main

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROWS = {
    "mirrormesh": 2,
    "floor": 2,
    "confluent-kafka": 2,
    "aiokafka": 2,
    "no backlog, h = 1": 1,
    "h = 1": 1,
    "h = 100": 1,
}
"""The rows of all tables, and how often each comes."""


def row(line):
    """The name and the numbers of a line of a table; no numbers: it is none."""
    name, cells = line[:17].strip(), line[17:].replace(",", "").split()
    try:
        return name, [float(cell) for cell in cells]
    except ValueError:
        return name, []


@pytest.mark.usefixtures("broker")  # skips where there is no Kafka
def test_a_small_run_has_a_number_in_every_place(capsys):
    main(["--quick"])
    said = capsys.readouterr().out
    rows = [row(line) for line in said.splitlines()]
    found = [(name, numbers) for name, numbers in rows if name in ROWS and numbers]
    assert {name: [known for known, _ in found].count(name) for name in ROWS} == ROWS, said
    for name, numbers in found:
        assert len(numbers) == (9 if ROWS[name] == 2 else 6), said
        assert all(math.isfinite(number) and number > 0 for number in numbers[:8]), said
    assert not re.search(r"\b(nan|inf)\b", said), said
    assert re.search(r"start to its first release: median \d+\.\d+ s", said), said
