"""How much a user may ask of the mesh broker: ten times what its processes do in a steady run, or more.

Quotas keep one party from stopping the others; they must not slow a node that catches up. The steady rate is
that of the busiest rounds: with slots by time one a period, at least one a second; with slots by count
`FASTEST` a second, or as many as fit through a network of `NETWORK` bytes a second. Each round counts its
longest messages, `PLANS` copies of its plan and a heartbeat of each node; the clock's heartbeats come on top.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from streams.bus.topic_specs import MIB, OVERHEAD, PLANS, Sizes, release_topics, sizes
from streams.codec import heartbeat
from streams.mesh.mesh import Mesh
from streams.mesh.settings.privacy import TimeSlots
from topology.scheduler import heartbeat_period

ROOM = 10
"""How many times the steady rate a quota is."""
FASTEST = 100.0
"""Rounds per second with slots by count: more than any mesh has reached (docs/performance.md)."""
NETWORK = 125e6
"""Bytes per second of a gigabit network, which the busiest node's rounds must fit through."""
REQUEST_SECONDS = 2e-4
"""A broker thread's time for a request; each message sent, and each received, is one. The broker in
docs/performance.md takes 9.5 ms a round for about 50 of them."""
IDLE_REQUESTS = 20.0
"""Requests per second of a process that waits."""
LEAST_BYTES, LEAST_PERCENTAGE = MIB, 50
"""The smallest quotas: a process that starts reads logs, and asks for every topic."""


class Quota(NamedTuple):
    """A user's limits on each broker: bytes per second, and percent of the time of one broker thread."""

    producer_byte_rate: int
    consumer_byte_rate: int
    request_percentage: int


class Load(NamedTuple):
    """What a process sends and receives in a round, or in a second: bytes and numbers of messages."""

    sent: float = 0
    received: float = 0
    requests: float = 0

    def plus(self, other: "Load", times: float = 1) -> "Load":
        """Return the load together with another, so many times."""
        return Load(*(part + times * more for part, more in zip(self, other, strict=True)))


def node_load(mesh: Mesh, node: str) -> Load:
    """Return a node's load per round."""
    sources, targets = mesh.graph.neighbours(node)
    size = sizes(mesh)
    sends = len({mesh.topics.edge(node, target) for target in targets})
    sent_bytes = sends * with_overhead(size.release) + with_overhead(heartbeat.LONGEST)
    received = (
        len(sources) * with_overhead(size.release)
        + PLANS * with_overhead(size.plan)
        + with_overhead(heartbeat.LONGEST)
    )
    return Load(sent_bytes, received, len(sources) + sends + PLANS + 2)


def scheduler_load(mesh: Mesh) -> Load:
    """Return a scheduler's load per round."""
    size, nodes = sizes(mesh), len(mesh.graph.nodes)
    sent_bytes = with_overhead(size.plan) + with_overhead(heartbeat.LONGEST)
    return Load(sent_bytes, _public(size, nodes), PLANS + nodes + 2)


def auditor_load(mesh: Mesh) -> Load:
    """Return the load per round of who reads all topics of the mesh."""
    size, nodes, topics = sizes(mesh), len(mesh.graph.nodes), len(release_topics(mesh))
    return Load(0, _public(size, nodes) + topics * with_overhead(size.release), PLANS + nodes + topics)


def rounds_per_second(mesh: Mesh) -> float:
    """Return the steady rate that quotas go by."""
    slots = mesh.settings.slots
    if isinstance(slots, TimeSlots):
        return max(1.0, 1 / slots.period)
    loads = (node_load(mesh, node) for node in mesh.graph.nodes)
    busiest = max(max(load.sent, load.received) for load in loads)
    return min(FASTEST, max(1.0, NETWORK / busiest))


def quota(mesh: Mesh, rate: float, loads: Iterable[Load]) -> Quota:
    """Return the quota of a user with processes of these loads per round, at `rate` rounds per second."""
    beats = Load(
        with_overhead(heartbeat.LONGEST), len(mesh.graph.nodes) * with_overhead(heartbeat.LONGEST), 2
    )
    second = Load()
    for load in loads:
        second = second.plus(load, rate).plus(beats, 1 / heartbeat_period(mesh.settings.silence))
        second = second.plus(Load(requests=IDLE_REQUESTS))
    return limited(second)


def limited(second: Load) -> Quota:
    """Return the quota of a user who sends and receives so much in a second of a steady run."""
    return Quota(
        max(LEAST_BYTES, math.ceil(ROOM * second.sent)),
        max(LEAST_BYTES, math.ceil(ROOM * second.received)),
        max(LEAST_PERCENTAGE, math.ceil(100 * ROOM * second.requests * REQUEST_SECONDS)),
    )


def _public(size: Sizes, nodes: int) -> float:
    """Return the bytes of a round's plans and heartbeats, a scheduler's included."""
    return PLANS * with_overhead(size.plan) + (nodes + 1) * with_overhead(heartbeat.LONGEST)


def with_overhead(value: int) -> int:
    """Return the bytes that a message takes on its way, at most."""
    return value + OVERHEAD
