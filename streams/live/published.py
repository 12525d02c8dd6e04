"""What a node's own edges hold: is its journal older than that, and what was journalled, but not sent?"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from nodes.journal import JournalRecord, is_outdated
from nodes.messages import ReleaseMessage
from streams.codec import Refused, decode_release
from streams.kafka.bus import KafkaBus
from streams.node_shell import NodeJournal
from streams.surroundings import Surroundings
from topology.plans import Plan


class Published(NamedTuple):
    """What the own edges say.

    `outdated`: the journal's instance has published what the journal does not know. `rounds`: by target, the
    rounds of this instance that are on the edge.
    """

    outdated: bool
    rounds: dict[str, frozenset[int]]


def published(node: str, journal: NodeJournal, surroundings: Surroundings, bus: KafkaBus) -> Published:
    """Read the own edges to their ends, one after the other. Raises Unreachable, BusError."""
    records, outdated, rounds = journal.records(), False, {}
    for target in surroundings.targets:
        edge = surroundings.topics.edge(node, target)
        values = bus.read(edge, bus.span(edge)[0])
        messages = list(_decoded(values, surroundings))
        outdated = outdated or is_outdated(records, journal.instance, messages)
        rounds[target] = frozenset(m.round for m in messages if m.instance == journal.instance)
    return Published(outdated, rounds)


def unsent(
    node: str,
    records: tuple[JournalRecord, ...],
    plans: Iterable[Plan],
    rounds: dict[str, frozenset[int]],
) -> Iterator[tuple[str, JournalRecord]]:
    """Yield (target, record) of what was journalled, and is not on an edge that its round's plan switched on.

    A process may have died, or its broker have been away, before it was taken. The newest record is left to
    the machine, which sends it again in any case.
    """
    planned: dict[int, Plan] = {}
    for plan in plans:
        planned.setdefault(plan.round, plan)
    for record in records[:-1]:
        if record.round in planned:
            for target in planned[record.round].outgoing(node):
                if target in rounds and record.round not in rounds[target]:
                    yield target, record


def _decoded(values: Iterable[bytes], surroundings: Surroundings) -> Iterator[ReleaseMessage]:
    for value in values:
        with suppress(Refused):
            yield decode_release(value, surroundings.own)
