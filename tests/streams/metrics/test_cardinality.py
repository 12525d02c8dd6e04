"""How many series a mesh makes, as the documentation says; none grows with the rounds."""

from pathlib import Path

from streams.metrics.scheduler_metrics import SchedulerMetrics
from tests.support.nodes.machines import learner
from tests.support.nodes.metrics import metrics, shown

SAID = " ".join((Path(__file__).parents[3] / "docs/reference/metrics.md").read_text().split())


def counts(edges, *, truth=False):
    """Series of a node with so many in-edges: shared, private."""
    figures = metrics(learner(budget="5"), sources=[f"source-{k}" for k in range(edges)], truth=truth)
    return len(shown(figures.shared)), len(shown(figures.private))


def of_a_scheduler(nodes):
    """Series of a scheduler for these nodes."""
    collected = SchedulerMetrics("tracking", nodes, connected=lambda: True).shared.collected
    return sum(len(family.samples) for family in collected.collect())


def test_the_series_of_a_node_and_of_an_edge_are_as_the_documentation_says():
    (shared, private), (with_one, _) = counts(0), counts(1)
    edge = with_one - shared
    assert counts(8) == (shared + 8 * edge, private)
    (scheduler, of_one) = (of_a_scheduler(""), of_a_scheduler("a"))
    assert of_a_scheduler("abcd") == scheduler + 4 * (of_one - scheduler)
    assert counts(0, truth=True) == (shared, private + 6)
    said = f"{shared} series for a node and {edge} for each in-edge; {private} private ones for a node of"
    assert said in SAID
    assert "up to eight), and 6 more where its records say where the target is" in SAID
    assert f"{scheduler} for a scheduler and {of_one - scheduler} for each node of the mesh file" in SAID
