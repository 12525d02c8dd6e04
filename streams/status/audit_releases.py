"""Finds mistakes in the releases of a mesh, from its edges and plans, which anybody may read.

A node releases one value for a round, on all its edges, and only for rounds whose plan names its instance as
a full member. A protected node may release a value without noise, marked as such, in three places only: x_1
in the run's first plan, the consensus after a round in which it listened, and relayed values after its last
learning round. In those places it must not draw noise. Each release with noise was charged for.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from enum import Enum
from typing import NamedTuple

from streams.bus.bus import Stores, UnknownTopic
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog
from streams.mesh.file import MeshFile
from topology.plans import Plan


class FindingKind(Enum):
    """The kind of a finding."""

    SECOND_VALUE = "second value"
    UNPLANNED = "unplanned round"
    UNNAMED = "unnamed instance"
    EXACT = "exact"
    DRAWN = "drawn"
    SIMULATED = "simulated"
    UNCHARGED = "not charged"


class EdgeRelease(NamedTuple):
    """One release on an edge; `value` is equal iff all its bytes are (a digest will do)."""

    source: str
    target: str
    round: int
    instance: str
    exact: bool
    simulated: bool
    value: bytes


class ReleaseSource(NamedTuple):
    """A node's public settings: whether its mechanism protects, and its last learning round (None: none)."""

    protected: bool
    last_learning_round: int | None = None


class Finding(NamedTuple):
    """A mistake: whose and where. `edges` are the targets whose edges hold it."""

    kind: FindingKind
    source: str
    round: int
    instance: str
    edges: tuple[str, ...]
    detail: str


class Findings(NamedTuple):
    """All mistakes, by round and source. `values`: the number of releases checked, each counted once.

    `unjudged`: those of rounds whose plans are no longer stored; they were only compared with one another.
    """

    findings: tuple[Finding, ...]
    values: int
    unjudged: int


def audit_releases(
    plans: Iterable[Plan],
    releases: Iterable[EdgeRelease],
    sources: Mapping[str, ReleaseSource],
    *,
    horizon: int,
    exact_noise: bool,
    charged: Mapping[str, int] | None = None,
) -> Findings:
    """Return the mistakes in the `releases`.

    `plans` are in the order of their log, and read after the edges: otherwise a round may seem unplanned.
    `charged`: the charged rounds of each node, or more, read after the edges too; None: not compared.
    `exact_noise`: whether the mesh file says that noise is exact.
    """
    groups: dict[tuple[int, str, str], list[EdgeRelease]] = defaultdict(list)
    for release in releases:
        groups[release.round, release.source, release.instance].append(release)
    planned = _Planned(plans, horizon)
    findings: list[Finding] = []
    for (round, source, instance), alike in sorted(groups.items()):
        edges = tuple(sorted({release.target for release in alike}))
        for kind, detail in _wrong(planned, sources[source], alike, exact_noise=exact_noise):
            findings.append(Finding(kind, source, round, instance, edges, detail))
    noisy = [key for key, alike in groups.items() if not all(release.exact for release in alike)]
    protected = {name: count for name, count in (charged or {}).items() if sources[name].protected}
    findings += _uncharged(sorted(noisy), protected)
    return Findings(tuple(findings), len(groups), sum(not planned.judges(round) for round, _, _ in groups))


def _uncharged(drawn: list[tuple[int, str, str]], charged: Mapping[str, int]) -> Iterator[Finding]:
    """Yield the nodes with more releases with noise, by (round, source, instance), than charges."""
    for name, charges in charged.items():
        noisy_rounds = [(round, instance) for round, source, instance in drawn if source == name]
        if len(noisy_rounds) > charges:
            round, instance = noisy_rounds[-1]
            detail = f"{len(noisy_rounds)} releases with noise, and {charges} charges"
            yield Finding(FindingKind.UNCHARGED, name, round, instance, (), detail)


class _Planned:
    """The valid plans still stored. If the first are gone, the next H may be invalid: they judge nothing."""

    def __init__(self, plans: Iterable[Plan], horizon: int) -> None:
        self.plans: dict[int, Plan] = {}
        for plan in plans:
            self.plans.setdefault(plan.round, plan)
        rounds = list(self.plans)
        whole = bool(rounds) and self.plans[rounds[0]].follows == 0
        self._unjudged = 0 if whole or not rounds else rounds[min(horizon, len(rounds)) - 1]

    def judges(self, round: int) -> bool:
        return round > self._unjudged


def _wrong(
    planned: _Planned, source: ReleaseSource, alike: list[EdgeRelease], *, exact_noise: bool
) -> list[tuple[FindingKind, str]]:
    first, wrong = alike[0], []
    values: dict[bytes, set[str]] = defaultdict(set)
    for release in alike:
        values[release.value].add(release.target)
    if len(values) > 1:
        targets_by_value = sorted({f"to {', '.join(sorted(targets))}" for targets in values.values()})
        wrong.append((FindingKind.SECOND_VALUE, f"{len(values)} values: {'; '.join(targets_by_value)}"))
    if exact_noise and any(release.simulated for release in alike):
        wrong.append((FindingKind.SIMULATED, "simulated noise, where the mesh file says exact"))
    if not planned.judges(first.round):
        return wrong
    plan = planned.plans.get(first.round)
    unnamed = _unnamed(plan, first)
    if plan is None or unnamed is not None:
        return [*wrong, unnamed or (FindingKind.UNPLANNED, "no plan is of this round")]
    if source.protected:
        before = planned.plans.get(plan.follows)
        reason = _exact_because(plan, before, first, source.last_learning_round)
        if reason is None and any(release.exact for release in alike):
            wrong.append((FindingKind.EXACT, "without noise, where noise is due"))
        if reason is not None and not all(release.exact for release in alike):
            wrong.append((FindingKind.DRAWN, f"with noise, though {reason}"))
    return wrong


def _unnamed(plan: Plan | None, release: EdgeRelease) -> tuple[FindingKind, str] | None:
    if plan is None:
        return None
    member = plan.member(release.source)
    if member is None:
        return FindingKind.UNNAMED, "the plan does not name the node"
    if member.instance != release.instance:
        return FindingKind.UNNAMED, f"the plan names instance {member.instance}"
    return None if member.full else (FindingKind.UNNAMED, "the plan names it as a listener")


def _exact_because(
    plan: Plan, before: Plan | None, release: EdgeRelease, last_learning: int | None
) -> str | None:
    """Return why the release has no noise; None: it must have noise. The step of the round before made it."""
    if plan.follows == 0:
        return "this is the run's first round"
    listened = before.member(release.source) if before is not None else None
    if listened is not None and listened.instance == release.instance and not listened.full:
        return "it listened in the round before"
    if last_learning is not None and plan.follows > last_learning:
        return f"its last learning round is {last_learning}"
    return None


class Read(NamedTuple):
    """The content of a mesh broker. `undecodable`: the number of bad records by (topic, reason).

    `unread`: the edges, (source, target), that plans name and that could not be read: the mesh file does not
    have their source any more, or has not got it yet, or their topic is gone.
    """

    plans: list[Plan]
    releases: list[EdgeRelease]
    sources: dict[str, ReleaseSource]
    undecodable: Counter[tuple[str, str]]
    unread: tuple[tuple[str, str], ...] = ()


def read_mesh(file: MeshFile) -> Read:
    """Read a mesh's topics to their ends. Raises BusError, MeshFileError."""
    with closing(reached(file.mesh_broker)) as logs:

        def is_there(topic: str) -> bool:
            try:
                logs.partitions([topic])
            except UnknownTopic:
                return False
            return True

        return read_stored(file, logs, is_there)


def read_stored(file: MeshFile, stores: Stores, is_there: Callable[[str], bool]) -> Read:
    """Read the edges of the file's mesh, and those of earlier generations, which its plans name.

    `is_there` tells whether there is a topic. Raises BusError.
    """
    graph, log = file.resolved.graph, MeshLog.of(file, stores)
    sources: dict[str, ReleaseSource] = {}
    releases: list[EdgeRelease] = []
    edges = {(name, target) for name in graph.nodes for target in graph.neighbours(name)[1]}
    # a log of its own, as bad plans are counted each time that they are read
    earlier_edges = _edges(MeshLog.of(file, stores).valid_plans().values()) - edges
    edges |= {edge for edge in earlier_edges if edge[0] in graph.nodes and is_there(log.topics.edge(*edge))}
    for name in graph.nodes:
        node = file.resolved.node(name)
        sources[name] = ReleaseSource(node.ledger.epsilon is not None, node.ledger.last_learning_round)
        targets = sorted(target for source, target in edges if source == name)
        for target, value, release in log.releases(node.expected, targets):
            value_digest = hashlib.sha256(value).digest()
            releases.append(
                EdgeRelease(
                    name,
                    target,
                    release.round,
                    release.instance,
                    release.exact,
                    release.simulated,
                    value_digest,
                )
            )
    for name in graph.nodes:
        log.heartbeats(name)
    plans = list(log.valid_plans().values())
    return Read(plans, releases, sources, log.refused, tuple(sorted(_edges(plans) - edges)))


def _edges(plans: Iterable[Plan]) -> set[tuple[str, str]]:
    """Return all edges that the plans name, as (source, target)."""
    edges: set[tuple[str, str]] = set()
    last_shape: tuple[object, ...] = ()
    for plan in plans:
        names = tuple(member.name for member in plan.members)
        shape = names, plan.sources.tobytes(), plan.targets.tobytes()
        if shape != last_shape:  # most plans have the edges of the one before
            pairs = zip(plan.sources.tolist(), plan.targets.tolist(), strict=True)
            edges |= {(names[source], names[target]) for source, target in pairs}
            last_shape = shape
    return edges
