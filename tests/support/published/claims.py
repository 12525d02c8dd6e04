"""What texts say of results: words, and the cells of the tables that their numbers are."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
HOWTOS = tuple(
    f"docs/howto/{name}.md" for name in ("write-a-mesh-file", "choose-a-mechanism", "collaboration")
)
EXPLAINED = tuple(f"docs/explanation/{name}.md" for name in ("bounds", "rule"))
PAGES = ("README.md", "docs/results.md", "docs/measurements/2026-11-23.md", *HOWTOS, *EXPLAINED)
TEXT = "\n".join((ROOT / name).read_text() for name in PAGES)
SAID = " ".join(TEXT.split())
RESULTS = ROOT / "experiments" / "results"
NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?")


class Claim(NamedTuple):
    """Words of a text, and the cells that their numbers are, in order."""

    said: str
    table: str
    cells: list[tuple[dict[str, str], str]]


def curves(said: str, table: str, *names: str, column: str = "mean") -> Claim:
    """The last points of curves."""
    return Claim(said, table, [({"curve": name}, column) for name in names])


def defined(said: str, table: str, *names: str) -> Claim:
    """The last points of curves of regret by its definition."""
    return curves(said, table, *names, column="definition_1")


def rows(said: str, table: str, key: str, names: Iterable[str], *columns: str) -> Claim:
    """Columns of the rows whose `key` is each of the names."""
    return Claim(said, table, [({key: name}, column) for name in names for column in columns])


def cell(table: str, where: dict[str, str], column: str) -> float:
    """The last cell of that column in the rows that are so."""
    with (RESULTS / f"{table}.csv").open() as file:
        found = [row for row in csv.DictReader(file) if where.items() <= row.items()]
    return float(found[-1][column])


def check(claim: Claim) -> None:
    """Fail unless a text says so, and the table holds it to the digits that are said."""
    assert claim.said in SAID
    said = NUMBER.findall(claim.said)
    held = [cell(claim.table, where, column) for where, column in claim.cells]
    assert len(said) == len(held)
    for number, value in zip(said, held, strict=True):
        digits = len(number.partition(".")[2])
        assert abs(value - float(number.replace(",", ""))) <= 0.5 * 10**-digits + 1e-9, (number, value)
