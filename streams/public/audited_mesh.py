"""Reads the mesh broker for an audit: every edge first, then every heartbeat and plan."""

import hashlib
from collections import Counter
from contextlib import closing
from typing import NamedTuple

from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog, messages
from streams.mesh.file import MeshFile
from streams.public.audit_releases import EdgeRelease, Source
from topology.plans import Plan


class Read(NamedTuple):
    """The content of a mesh broker. `undecodable`: the number of bad records by (topic, reason)."""

    plans: list[Plan]
    releases: list[EdgeRelease]
    sources: dict[str, Source]
    undecodable: Counter[tuple[str, str]]


def read_mesh(file: MeshFile) -> Read:
    """Read a mesh's topics to their ends. Raises BusError, MeshFileError."""
    graph = file.resolved.graph
    sources: dict[str, Source] = {}
    releases: list[EdgeRelease] = []
    with closing(reached(file.mesh_broker)) as logs:
        log = MeshLog.of(file, logs)
        for name in graph.nodes:
            node = file.resolved.node(name)
            sources[name] = Source(node.ledger.epsilon is not None, node.ledger.last_learning_round)
            for target, value, one in log.releases(node.expected, graph.neighbours(name)[1]):
                same = hashlib.sha256(value).digest()
                releases.append(
                    EdgeRelease(name, target, one.round, one.instance, one.exact, one.simulated, same)
                )
        for name in graph.nodes:
            log.heartbeats(name)
        return Read(messages(log.plans()), releases, sources, log.refused)
