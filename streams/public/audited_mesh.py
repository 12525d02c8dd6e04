"""Reads what an audit looks at from the mesh broker: every edge first, then every plan and heartbeat."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import NamedTuple, TypeVar

from streams.bus.logs import Logs, reached
from streams.codec import Expected, Refused, decode_heartbeat, decode_plan, decode_release
from streams.codec.topics import MeshTopics
from streams.mesh import building as build
from streams.mesh.file import MeshFile
from streams.public.audit_releases import Source, Told
from topology.plans import Heartbeat, Plan

T = TypeVar("T")


class Read(NamedTuple):
    """What a mesh broker holds. `undecodable`: how many records, by (topic, reason)."""

    plans: list[Plan]
    told: list[Told]
    sources: dict[str, Source]
    undecodable: Counter[tuple[str, str]]


def read_mesh(file: MeshFile) -> Read:
    """Read a mesh's topics to their ends. Raises BusError, MeshFileError."""
    mesh, digest = file.mesh, file.digest()
    topics, graph = MeshTopics(mesh.name, mesh.run), build.schedule(mesh, mesh.seed).graph
    sources: dict[str, Source] = {}
    told: list[Told] = []
    with closing(reached(file.mesh_broker)) as logs:
        reader = _Reader(logs)
        for name in graph.nodes:
            made = build.learner(mesh, name, build.sampler(mesh, name, mesh.seed))
            sources[name] = Source(made.mechanism.epsilon is not None, made.ledger.last_learning_round)
            expected = Expected(mesh.run, name, digest, mesh.dimension, made.release_bound)
            edges = {topics.edge(name, target): target for target in graph.neighbours(name)[1]}
            told += reader.decoded(edges, partial(_told, edges, expected))
        for name in graph.nodes:
            reader.decoded([topics.progress(name)], partial(_beat, mesh.run, name, digest))
        plans = reader.decoded([topics.topology], lambda _, value: decode_plan(value, mesh.run, digest))
    return Read(plans, told, sources, reader.undecodable)


def _told(edges: dict[str, str], expected: Expected, topic: str, value: bytes) -> Told:
    message, same = decode_release(value, expected), hashlib.sha256(value).digest()
    flags = message.exact, message.simulated
    return Told(message.source, edges[topic], message.round, message.instance, *flags, same)


def _beat(run: str, node: str, digest: bytes, _: str, value: bytes) -> Heartbeat:
    return decode_heartbeat(value, run, node, digest)


class _Reader:
    """Reads topics from their beginnings, and counts what is not what it should be."""

    def __init__(self, logs: Logs) -> None:
        self.undecodable: Counter[tuple[str, str]] = Counter()
        self._logs = logs

    def decoded(self, topics: Iterable[str], decode: Callable[[str, bytes], T]) -> list[T]:
        """Return what `decode` makes of (topic, value), in the order of each topic."""
        found = []
        for topic, records in self._logs.read({topic: self._logs.span(topic)[0] for topic in topics}).items():
            for record in records:
                try:
                    found.append(decode(topic, record.value))
                except Refused as refused:
                    self.undecodable[topic, refused.reason.value] += 1
        return found
