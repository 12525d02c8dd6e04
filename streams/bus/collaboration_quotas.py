"""How much a user of a collaboration may ask of the shared broker, by the rules of `quotas`.

The steady rate is `FASTEST` queries a second, or as many as fit through a network of `NETWORK` bytes a
second. Each counts a query and a response of every owner; heartbeats come on top, `BEATS` a second.
"""

from collections.abc import Iterable

from streams.bus.quotas import FASTEST, IDLE_REQUESTS, NETWORK, Load, Quota, limited, with_overhead
from streams.codec import heartbeat
from streams.mesh.wire import Wire

BEATS = 1.0
"""Heartbeats that each process sends in a second."""


def learner_quota(wire: Wire) -> Quota:
    """Return the learner's: it asks, and reads every response."""
    return _quota(wire, learner_load(wire), heard=1)


def owner_quota(wire: Wire, owner: str) -> Quota:
    """Return an owner's: it reads the queries, and answers."""
    return _quota(wire, owner_load(wire, owner), heard=1)


def auditor_quota(wire: Wire) -> Quota:
    """Return that of who reads all topics."""
    query_bytes, response_bytes = _sizes(wire, wire.responses)
    load = Load(0, query_bytes + response_bytes, 1 + len(wire.responses))
    return _quota(wire, load, heard=1 + len(wire.responses), sent=0)


def learner_load(wire: Wire) -> Load:
    """Return the learner's load per query."""
    query_bytes, response_bytes = _sizes(wire, wire.responses)
    return Load(query_bytes, response_bytes, 1 + len(wire.responses))


def owner_load(wire: Wire, owner: str) -> Load:
    """Return an owner's load per query."""
    query_bytes, response_bytes = _sizes(wire, (owner,))
    return Load(response_bytes, query_bytes, 2)


def queries_per_second(wire: Wire) -> float:
    """Return the steady rate that quotas go by."""
    load = learner_load(wire)  # what an owner sends or receives is part of it
    return min(FASTEST, max(1.0, NETWORK / max(load.sent, load.received)))


def _quota(wire: Wire, load: Load, heard: int, sent: int = 1) -> Quota:
    """Return a quota for this load per query, with the heartbeats of so many processes."""
    beat = with_overhead(heartbeat.LONGEST)
    second = Load().plus(load, queries_per_second(wire))
    second = second.plus(Load(sent * beat, heard * beat, sent + heard), BEATS)
    return limited(second.plus(Load(requests=IDLE_REQUESTS)))


def _sizes(wire: Wire, owners: Iterable[str]) -> tuple[int, int]:
    """Return the bytes of a query, and of a response of each of these owners."""
    response_bytes = sum(with_overhead(wire.responses[owner].length) for owner in owners)
    return with_overhead(wire.queries.length), response_bytes
