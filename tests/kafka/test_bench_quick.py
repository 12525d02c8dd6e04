"""`make bench-kafka` works: a small run has a number in every place of its tables. How fast is not asked."""

import math
import re

import pytest

from tests.benchmarks.kafka import main

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROWS = {
    "mirrormesh": 9,
    "floor": 9,
    "confluent-kafka": 9,
    "aiokafka": 9,
    "no backlog, h = 1": 6,
    "h = 1": 6,
    "h = 100": 6,
}
"""The rows of all tables, and how many numbers each has."""


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
    assert {name: len(numbers) for name, numbers in found} == ROWS, said
    assert len(found) == len(ROWS), said
    # what is quick enough is 0.00: two releases that come in one fetch, and their ratio to a slow floor
    assert all(math.isfinite(number) and number >= 0 for _, numbers in found for number in numbers), said
    assert all(dict(found)[name][0] > 0 for name in ("mirrormesh", "floor", "h = 1", "h = 100")), said
    assert not re.search(r"\b(nan|inf)\b", said), said
    assert re.search(r"start to its first release: median \d+\.\d+ s", said), said
