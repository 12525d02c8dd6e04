from pathlib import Path

from docs.regions.metrics import table
from streams.metrics.catalogue import PrivateMetric, SharedMetric

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_the_reference_has_the_table_of_the_catalogue():
    assert table() in PAGE.read_text(), "python -m docs.generate"


def test_every_metric_has_a_line_which_says_who_may_see_it():
    rows = [line.split(" | ") for line in table().splitlines()[2:-1]]
    assert [row[0] for row in rows] == [
        f"| `{metric.value.name}`" for metric in (*SharedMetric, *PrivateMetric)
    ]
    assert [row[4] for row in rows] == ["all"] * len(SharedMetric) + ["owner"] * len(PrivateMetric)
