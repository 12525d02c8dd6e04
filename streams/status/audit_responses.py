"""Finds mistakes in what the parties of a collaboration have said, which anybody on its broker may read.

The learner asks each of T queries at one theta, or ends before and says so; each owner answers a query with
one value, none that was not asked, and none beyond T. Each has one journal. The noise is that of the mesh
file.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import NamedTuple, TypeVar

from nodes.collaboration.messages import Query, Response
from streams.bus.bus import Stores
from streams.bus.logs import reached
from streams.codec import Refused
from streams.mesh.file import CollaborationFile
from streams.mesh.wire import Wire

T = TypeVar("T", Query, Response)


class Wrong(NamedTuple):
    """A mistake: in words, whose, and in which query."""

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
    """Return the numbers that a final query may have: T + 1, or the last query's where a run ended early."""
    last = max((query.number for query in said.queries if not query.final), default=0)
    whole = any(query.final and query.number == queries + 1 for query in said.queries)
    return {queries + 1} if whole else {queries + 1, last}


def _second_values(said: Iterable[tuple[str, int, bytes]]) -> Iterator[Wrong]:
    values: dict[tuple[str, int], set[bytes]] = defaultdict(set)
    for party, query, value in said:
        values[party, query].add(value)
    for (party, query), different in values.items():
        if len(different) > 1:
            yield Wrong("second value", party, query, f"{len(different)} values")


def _instances(said: Iterable[tuple[str, int, str]]) -> Iterator[Wrong]:
    """Yield the messages of another journal than that of a party's first message."""
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
