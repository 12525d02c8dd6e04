"""Audits a mesh: its messages, which anybody on the broker may read, and its mechanisms, by draws."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeVar

from nodes.accounting.guarantee import MANY, Unit
from nodes.audit import (
    PERSON_RUNS,
    Audit,
    audit,
    audit_answers,
    audit_rounds,
    lattice_holds,
    person_rounds,
)
from nodes.collaboration.messages import Query, Response
from nodes.privacy.mechanism import Audited, Mechanism
from nodes.privacy.query import QueryMechanism
from streams.bus.bus import Stores, UnknownTopic
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog, messages
from streams.codec import Refused
from streams.collaboration.file import CollaborationFile
from streams.collaboration.wire import Collaboration, Wire
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.privacy import growing_epsilon
from topology.plans import Plan

# Finds mistakes in the releases of a mesh, from its edges and plans, which anybody may read.
#
# A node releases one value for a round, on all its edges, and only for rounds whose plan names its instance
# as a full member. A protected node may release a value without noise, marked as such, in three cases only:
# x_1 in the run's first plan, the consensus after a round in which it listened, and relayed values after its
# last learning round. In these cases it must not draw noise. Each release with noise was charged.


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
    """A node's public settings: whether its mechanism protects, and its last learning round (None: none).

    `leaves`: the rounds from which it has asked to be in no plan.
    """

    protected: bool
    last_learning_round: int | None = None
    leaves: frozenset[int] = frozenset()

    def may_have_closed(self, round: int) -> bool:
        """Return whether it may have learnt nothing in that round, as it was its last one, or a later one."""
        return any(round >= leave_from - 1 for leave_from in self.leaves)


class Finding(NamedTuple):
    """A mistake, its node and its round. `edges` are the targets of the edges that have it."""

    kind: FindingKind
    source: str
    round: int
    instance: str
    edges: tuple[str, ...]
    detail: str


class Findings(NamedTuple):
    """All mistakes, by round and source. `values`: the number of releases checked, each counted once.

    `unjudged`: the number of releases of rounds whose plans are no longer stored, which were only compared
    with one another.
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

    `plans` are in the order of their log, and must be read after the edges, as otherwise a round may seem
    unplanned. `charged`: an upper bound of each node's charged rounds, also read after the edges; None: not
    compared. `exact_noise`: whether the mesh file sets exact noise.
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
    """The valid plans that are still stored.

    If the first are gone, the next H may be invalid and are not used.
    """

    def __init__(self, plans: Iterable[Plan], horizon: int) -> None:
        self.plans: dict[int, Plan] = {}
        for plan in plans:
            self.plans.setdefault(plan.round, plan)
        rounds = list(self.plans)
        covers_start = bool(rounds) and self.plans[rounds[0]].follows == 0
        self._unjudged = 0 if covers_start or not rounds else rounds[min(horizon, len(rounds)) - 1]

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
        due = reason is None and not source.may_have_closed(plan.follows)
        if due and any(release.exact for release in alike):
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
    """Return why a release has no noise; None: it must have noise. A release is made in the round before."""
    if plan.follows == 0:
        return "this is the run's first round"
    listened = before.member(release.source) if before is not None else None
    if listened is not None and listened.instance == release.instance and not listened.full:
        return "it listened in the round before"
    if before is not None and before.closing:
        return "the round before was a closing one"
    if last_learning is not None and plan.follows > last_learning:
        return f"its last learning round is {last_learning}"
    return None


class Read(NamedTuple):
    """The content of a mesh broker. `undecodable`: the number of bad records by (topic, reason).

    `unread`: the edges, (source, target), that plans name and that could not be read, because the mesh file
    no longer has their source, or does not have it yet, or because their topic was deleted.
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
        wishes = [beat.leave_from for beat in messages(log.heartbeats(name))]
        leaves = frozenset([round for round in wishes if round is not None])
        sources[name] = ReleaseSource(
            node.ledger.epsilon is not None, node.ledger.last_learning_round, leaves
        )
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
    plans = list(log.valid_plans().values())
    return Read(plans, releases, sources, log.refused, tuple(sorted(_edges(plans) - edges)))


def _edges(plans: Iterable[Plan]) -> set[tuple[str, str]]:
    """Return all edges that the plans name, as (source, target)."""
    edges: set[tuple[str, str]] = set()
    last_shape: tuple[object, ...] = ()
    for plan in plans:
        names = tuple(member.name for member in plan.members)
        shape = names, plan.sources.tobytes(), plan.targets.tobytes()
        if shape != last_shape:  # most plans have the edges of the previous plan
            pairs = zip(plan.sources.tolist(), plan.targets.tolist(), strict=True)
            edges |= {(names[source], names[target]) for source, target in pairs}
            last_shape = shape
    return edges


# Finds mistakes in the messages of a collaboration's parties, which anybody on its broker may read.
#
# The learner sends each of T queries with one theta, or ends earlier with a final query. Each owner answers a
# query with one value, and answers no query that was not sent, and none after T. Each party has one journal.
# The noise is that of the mesh file.

T = TypeVar("T", Query, Response)


class Wrong(NamedTuple):
    """A mistake in words, its party, and its query."""

    kind: str
    party: str
    query: int
    detail: str


class Said(NamedTuple):
    """All messages of a run, and the number of bad records by (topic, reason)."""

    queries: list[Query]
    responses: list[Response]
    undecodable: Counter[tuple[str, str]]

    @property
    def answers(self) -> int:
        """The number of answers, each counted once however often it was sent."""
        return len({(response.owner, response.query) for response in self.responses})


def audit_responses(said: Said, queries: int, *, exact_noise: bool) -> list[Wrong]:
    """Return the mistakes, by query and party. `queries`: T; `exact_noise`: as the mesh file says."""
    query_numbers = {message.number for message in said.queries}
    findings = [
        *_second_values(
            (message.learner, message.number, message.parameters.tobytes()) for message in said.queries
        ),
        *_second_values(
            (message.owner, message.query, message.response.tobytes()) for message in said.responses
        ),
        *_instances((message.learner, message.number, message.instance) for message in said.queries),
        *_instances((message.owner, message.query, message.instance) for message in said.responses),
    ]
    ends = _ends(said, queries)
    findings += [
        Wrong("out of order", message.learner, message.number, f"the run has {queries:,} queries")
        for message in said.queries
        if (message.number not in ends if message.final else message.number > queries)
    ]
    for answer in said.responses:
        if answer.query > queries:
            findings.append(Wrong("beyond T", answer.owner, answer.query, f"the run has {queries:,} queries"))
        elif answer.query not in query_numbers:
            findings.append(Wrong("not asked", answer.owner, answer.query, "no such query is stored"))
        if exact_noise and answer.simulated:
            words = "simulated noise, where the mesh file says exact"
            findings.append(Wrong("simulated", answer.owner, answer.query, words))
    return sorted(set(findings), key=lambda message: (message.query, message.party, message.kind))


def _ends(said: Said, queries: int) -> set[int]:
    """Return the numbers that a final query may have: T + 1, or that of the last query if the run ended
    early.
    """
    last = max((query.number for query in said.queries if not query.final), default=0)
    is_complete = any(query.final and query.number == queries + 1 for query in said.queries)
    return {queries + 1} if is_complete else {queries + 1, last}


def _second_values(said: Iterable[tuple[str, int, bytes]]) -> Iterator[Wrong]:
    values: dict[tuple[str, int], set[bytes]] = defaultdict(set)
    for party, query, value in said:
        values[party, query].add(value)
    for (party, query), different in values.items():
        if len(different) > 1:
            yield Wrong("second value", party, query, f"{len(different)} values")


def _instances(said: Iterable[tuple[str, int, str]]) -> Iterator[Wrong]:
    """Yield the messages that are of another journal than their party's first message."""
    first: dict[str, str] = {}
    for party, query, instance in said:
        if first.setdefault(party, instance) != instance:
            yield Wrong("another journal", party, query, f"instance {instance}, at first {first[party]}")


def read_collaboration(file: CollaborationFile) -> Said:
    """Read a collaboration's topics to their ends. Raises BusError, MeshFileError."""
    wire, bad = Wire(file.resolved), Counter[tuple[str, str]]()
    with closing(reached(file.mesh_broker)) as logs:
        responses = [
            response
            for owner in wire.responses
            for response in _decoded(logs, wire.topics.response(owner), partial(wire.response, owner), bad)
        ]
        queries = _decoded(logs, wire.topics.query, wire.query, bad)
        return Said(list(queries), responses, bad)


def _decoded(
    stores: Stores, topic: str, decode: Callable[[bytes], T], bad: Counter[tuple[str, str]]
) -> Iterator[T]:
    for record in stores.stored({topic: stores.span(topic)[0]})[topic]:
        try:
            yield decode(record.value)
        except Refused as refused:
            bad[topic, refused.reason.value] += 1


# Audits the mechanisms of a mesh, with as many draws as fit into a minute.

DRAWS = 40_000
"""Draws on each slot, if they are cheap."""
PAIRS = 100
"""Pairs of slots that the lattice test compares, if they are cheap."""
_WORK = 2_000_000  # noisy integers on each slot: about a minute in all
_LEAST_DRAWS, _LEAST_PAIRS = 100, 10


class Subject(NamedTuple):
    """A mechanism (None: nothing protects) and the nodes that have it.

    `round`: the audited round, if a growing epsilon makes rounds differ: the last one, with the least noise.
    """

    nodes: tuple[str, ...]
    mechanism: Audited | None
    round: int | None = None


class MechanismAudit(NamedTuple):
    """An audit of one mechanism. `pairs`: the pairs of slots that the lattice test compared.

    `lowered`: whether the dimension allowed fewer draws than usual.
    """

    lattice: bool
    pairs: int
    lowered: bool
    audit: Audit

    @property
    def sound(self) -> bool:
        """Whether nothing was refuted."""
        return self.lattice and not self.audit.refuted


def subjects(mesh: Mesh, nodes: Iterable[str]) -> list[Subject]:
    """Return the distinct mechanisms of these nodes, in order."""
    alike: dict[str, list[str]] = {}
    for name in nodes:
        alike.setdefault(mesh.node(name).privacy.model_dump_json(), []).append(name)
    return [_subject(mesh, tuple(names)) for names in alike.values()]


def affordable(mechanism: Audited) -> tuple[int, int]:
    """Return the numbers of draws on each slot, and of pairs of slots, that take about a minute."""
    cost = mechanism.draw_cost * audit_rounds(mechanism)
    draws = max(_LEAST_DRAWS, min(DRAWS, _WORK // cost))
    return draws, max(_LEAST_PAIRS, min(PAIRS, _WORK // (10 * cost)))


def audited(
    mechanism: Audited, draws: int | None, confidence: float, drawn: Callable[[int], None]
) -> MechanismAudit:
    """Audit a mechanism; `draws` None: as many as are cheap. `drawn` gets the number of new draws."""
    affordable_draws, pairs = affordable(mechanism)
    lattice = lattice_holds(mechanism, pairs)
    result = audit(mechanism, draws or affordable_draws, confidence, drawn=drawn)
    return MechanismAudit(lattice, pairs, draws is None and affordable_draws < DRAWS, result)


def _subject(mesh: Mesh, nodes: tuple[str, ...]) -> Subject:
    node = mesh.node(nodes[0])
    growing = growing_epsilon(node.privacy.epsilon, mesh.settings.slots.size)
    return Subject(nodes, node.mechanism.audited, growing.rounds if growing else None)


# Audits a person with many records, with as many runs as fit into a minute.

PERSON_RECORDS = MANY


class PersonSubject(NamedTuple):
    """A person whose records are looked at together: how many rounds they are in, and how far apart.

    `name`: the person, in words. `protected`: whether the mesh file's unit bounds the records.
    """

    name: str
    mechanism: Audited
    records: int
    apart: int
    protected: bool = False

    @property
    def runs(self) -> int:
        """The runs on each side that take about a minute."""
        cost = 2 * self.mechanism.draw_cost * person_rounds(self.mechanism, self.records, self.apart)
        return max(_LEAST_DRAWS, min(PERSON_RUNS, _WORK // cost))


def person_subjects(
    plain: Mechanism, of_unit: Mechanism | None, unit: Unit | None, rounds: int | None
) -> list[PersonSubject]:
    """Return the persons to audit: one without a unit, one with the file's unit, and the control.

    `plain` is the mechanism of the file without its unit, `of_unit` that with it. Without a unit a person has
    a record in each of 100 rounds, or in each of the run's `rounds`, if these are fewer.
    """
    bare = plain.audited
    if bare is None:
        return []
    records = PERSON_RECORDS if rounds is None else min(PERSON_RECORDS, rounds)
    in_words = "1 record" if records == 1 else f"{records} records"
    unbounded = PersonSubject(f"a person with {in_words}, one a round, and no unit", bare, records, 1)
    control = PersonSubject("the control: one record, and no unit", bare, 1, 1)
    bounded = None if of_unit is None else of_unit.audited
    if bounded is None or unit is None:
        return [unbounded, control]
    cost = _LEAST_DRAWS * 2 * bounded.draw_cost
    rounds = max(1, _WORK // cost - audit_rounds(bounded)) if bounded.band is not None else unit.records
    records = min(unit.records, 1 + (rounds - 1) // (unit.apart if bounded.band is not None else 1))
    in_rounds = "1 round" if records == 1 else f"{records:,} rounds, {unit.apart:,} apart"
    name = f"a person with {PERSON_RECORDS} records, whom the unit {unit.column} bounds to {in_rounds}"
    return [unbounded, PersonSubject(name, bounded, records, unit.apart, protected=True), control]


# Audits the owners' answers in a collaboration, with as many draws as fit into a minute.

_MOST, _ANSWER_WORK = 1_000_000, 8_000_000
"""The most draws on each of two sets, and the most noisy integers. One of T answers has a small epsilon, so
an audit needs many draws."""
_LEAST = 100


class AnswerSubject(NamedTuple):
    """A mechanism, and the owners that have it."""

    owners: tuple[str, ...]
    mechanism: QueryMechanism


def answer_subjects(whole: Collaboration, owners: Iterable[str]) -> list[AnswerSubject]:
    """Return the distinct mechanisms of these owners, in order: the number of records changes no noise."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for name in owners:
        terms = whole.settings.owners[name]
        alike.setdefault((terms.mechanism, terms.epsilon, terms.delta), []).append(name)
    return [AnswerSubject(tuple(names), whole.mechanism(names[0])) for names in alike.values()]


def answer_draws(made: QueryMechanism) -> int:
    """Return the number of draws on each of two sets that takes about a minute."""
    return max(_LEAST, min(_MOST, _ANSWER_WORK // made.audited.draw_cost))


def audited_answers(
    made: QueryMechanism, draws: int, confidence: float, drawn: Callable[[int], None]
) -> MechanismAudit:
    """Audit a mechanism; `drawn` gets the number of new draws."""
    _, pairs = affordable(made.audited)
    lattice = lattice_holds(made.audited, pairs)
    return MechanismAudit(lattice, pairs, lowered=False, audit=audit_answers(made, draws, confidence, drawn))
