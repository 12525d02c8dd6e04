"""What a broker loses under a mesh: topics, records beyond a reader's position, ends of logs, its disk."""

from collections.abc import Callable

from streams.status.audit import FindingKind
from tests.benchmarks.harm import HORIZON
from tests.benchmarks.lossy import Loss, Lossy
from tests.support.brokers.forgetting import LOST, cut_before_end, forget, logs, made_again, topic_of, wiped
from tests.support.processes.mesh import wait_until

KINDS = ("edge", "topology", "progress", "scheduler")
PLANS_LOST = frozenset({FindingKind.UNPLANNED})
"""Rounds that were released, and whose plans the broker has lost."""
ALL_LOST = PLANS_LOST | {FindingKind.UNNAMED}
"""The run is planned from its first round again, while a node may yet release by a lost plan."""


def _lost(kind: str) -> frozenset[FindingKind]:
    return PLANS_LOST if kind == "topology" else frozenset()


def _made_again(kind: str) -> Callable[[Lossy], None]:
    def inflict(losing: Lossy) -> None:
        made_again(losing.mesh, topic_of(losing.mesh, kind))

    return inflict


def _data_made_again(losing: Lossy) -> str:
    made_again(losing.mesh, topic_of(losing.mesh, "data"))
    return losing.nodes[0]


def _cut(*kinds: str) -> Callable[[Lossy], str]:
    """The node at the topics' ends is stopped; all records up to now are deleted before it starts again."""

    def inflict(losing: Lossy) -> str:
        name, mesh = losing.nodes[0], losing.mesh
        others = [other for other in losing.nodes if other != name]
        mesh.processes[name].terminate()
        assert mesh.processes[name].ends() == 0
        at = min(losing.stepped(others))
        wait_until(lambda: min(losing.stepped(others)) > at + HORIZON)
        topics = mesh.file.resolved.topics
        sources = mesh.file.resolved.graph.neighbours(name)[0]
        found = {
            "edges": [topics.edge(source, name) for source in sources],
            "topology": [topics.topology],
            "data": [mesh.file.data_topics(name).records],
        }
        cut_before_end(losing.broker, [topic for kind in kinds for topic in found[kind]])
        losing.node(name)
        return name

    return inflict


def _power_cut(*kinds: str) -> Callable[[Lossy], None]:
    def inflict(losing: Lossy) -> None:
        losing.released.look()
        losing.broker = forget(losing.broker, logs(losing.broker, losing.mesh, kinds))

    return inflict


def _disk(losing: Lossy) -> None:
    losing.released.look()
    losing.broker = wiped(losing.broker, losing.mesh.file)


BROKER_LOSSES = (
    *(Loss(f"a topic made again: {kind}", _made_again(kind), allowed=_lost(kind)) for kind in KINDS),
    Loss("a topic made again: data", _data_made_again, anew=True),
    Loss("records cut beyond a stopped node's position: edges", _cut("edges")),
    Loss("records cut beyond a stopped node's position: topology", _cut("topology")),
    Loss("records cut beyond a stopped node's position: data", _cut("data"), None),
)
DISK_LOSSES = (
    Loss(f"power cut: the last {LOST:,} bytes of the plans", _power_cut(".topology"), None, PLANS_LOST),
    Loss(f"power cut: the last {LOST:,} bytes of every log", _power_cut(".", "data"), None, PLANS_LOST),
    Loss("the broker's folder wiped, topics provisioned again", _disk, None, ALL_LOST),
)
