"""The table of records needed: the page has the measured figures, and a cell is as it was measured."""

import csv
from collections import defaultdict

import pytest

from experiments.records_needed import EPSILONS, FEATURES, POSITIVE, RESULT, needed
from tests.support.published.pages import page


def measured():
    with RESULT.open() as file:
        return {
            (float(row["epsilon"]), int(row["features"]), float(row["positive"])): row
            for row in csv.DictReader(file)
        }


def test_the_page_has_the_measured_figures():
    cells = defaultdict(list)
    for (epsilon, features, _), row in measured().items():
        records = row["records"]
        cells[epsilon, features].append(
            f"{int(records):,}" if records.isdigit() else f"more than {int(records[6:]):,}"
        )
    assert set(cells) == {(epsilon, features) for epsilon in EPSILONS for features in FEATURES}
    for (epsilon, features), shown in cells.items():
        assert len(shown) == len(POSITIVE)
        assert f"| {epsilon:g} | {features} | {' | '.join(shown)} |" in page("docs/howto/how-many-records.md")


@pytest.mark.parametrize(("epsilon", "features", "positive"), [(1.0, 10, 0.5), (4.0, 10, 0.5)])
def test_a_cell_is_as_it_was_measured(tmp_path, epsilon, features, positive):
    records, low = needed(tmp_path, epsilon, features, positive)
    row = measured()[epsilon, features, positive]
    assert (str(records), f"{low:.3f}") == (row["records"], row["least_auc"])
