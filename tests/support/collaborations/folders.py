"""A small collaboration of three owners, with its files in a folder, and its processes in memory."""

from collections import Counter
from functools import partial

import numpy as np

from streams.bus.memory import MemoryBroker, MemoryBus
from streams.collaboration.local import (
    CollaborationJournals,
    LearnerMemory,
    LocalCollaboration,
    OwnerMemory,
    collaboration_topics,
)
from streams.collaboration.passes import fixed_sets
from streams.collaboration.roles import LearnerRole, OwnerRole, learner_start, owner_start
from streams.collaboration.wire import Wire
from streams.mesh.file import load_any
from streams.runtime.actions import at_once, in_memory
from streams.runtime.runner import Host, Runner

SIZES = {"a": 6, "b": 4, "c": 5}


def text(noise="{simulated: 3}", run="first", sharing=1, more="", more_mesh="") -> str:
    """The mesh file."""
    owners = "\n".join(
        f"  {name}: {{source: {{kind: csv, path: {name}.csv, schema: schema.yaml}}}}" for name in SIZES
    )
    return f"""\
mesh:
  kind: collaboration
  name: small
  run: {run}
  learner: l
  owners:
    a: {{records: 6, epsilon: 8}}
    b: {{records: 4, epsilon: 9, mechanism: gaussian, delta: 1.0e-6}}
    c: {{records: 5, epsilon: 7}}
  dimension: 3
  loss: squared
  regulariser: 0.1
  constraint: {{l2-ball: 5}}
  algorithm: {{name: averaged, step: 0.5}}
  queries: 5
  gradient_bound: 1
  sharing: {sharing}
  noise: {noise}
{more_mesh}owners:
{owners}
{more}"""


def write(folder, canary=0.5, **changes):
    """Write the mesh file, the schema and the owners' records; return the path of the first."""
    (folder / "schema.yaml").write_text(
        "features: {x: number, y: number}\nlabel: {column: z}\nintercept: true\n"
    )
    random = np.random.default_rng(4)
    for name, count in SIZES.items():
        rows = [",".join(f"{value:.3f}" for value in random.normal(size=3)) for _ in range(count - 1)]
        (folder / f"{name}.csv").write_text("\n".join(["x,y,z", f"{canary},0.25,-0.125", *rows]) + "\n")
    path = folder / "small.yaml"
    path.write_text(text(**changes))
    return path


def written(folder, **changes):
    """The loaded mesh file."""
    return load_any(write(folder, **changes))


class Watcher:
    """Observes a learner or owner: counts what it refuses, and ignores the rest."""

    def __init__(self):
        self.reasons = Counter()

    def refused(self, *refused):
        """Count it: an owner's is the refusal alone."""
        self.reasons[refused[-1].reason] += 1

    def __getattr__(self, name):
        return lambda *_: None


class Parties:
    """The learner l and the owners a, b, c on a broker in memory, as processes on the product's runner.

    `wire_of` returns the wire of one. `journals`: all of them in memory unless others are given.
    """

    def __init__(self, file, wire_of=None, **journals):
        self.file, self.wire_of = file, wire_of or (lambda _: Wire(file.resolved))
        self.topics, mesh = Wire(file.resolved).topics, file.mesh
        topics = collaboration_topics(self.topics, mesh.learner, mesh.owners)
        self.broker, self.ended = MemoryBroker(topics, largest=2**40), {}
        self.journals = {name: OwnerMemory("5a" * 16) for name in SIZES} | {"l": LearnerMemory("1e" * 16)}
        self.journals |= journals
        self.watchers = {name: Watcher() for name in self.journals}

    def host(self, *names):
        """Begin a process of these; return their machines."""
        bus = MemoryBus(self.broker)
        world = in_memory(self.broker, bus)
        roles = {name: self.role(name, world) for name in names}
        ended = {name: partial(self.ended.__setitem__, name) for name in names}
        Host([Runner(role, world, ended[name]) for name, role in roles.items()], bus).begin()
        return [role.machine for role in roles.values()]

    def role(self, name, world):
        """The role of one, after its hello."""
        wire, journal, watcher = self.wire_of(name), self.journals[name], self.watchers[name]
        if name == self.file.mesh.learner:
            learner = LearnerRole(self.file, wire, journal, "b0" * 16)
            learner.presence.hello(world.bus, at_once)
            return learner.role(learner_start(journal, wire, world.bus), watcher, timeout=None, beat=None)
        ((passes, records),) = fixed_sets(self.file, [name]).values()
        owner = OwnerRole(self.file, name, wire, journal, "b1" * 16)
        owner.presence.hello(world.bus, at_once)
        start = owner_start(journal, name, wire, world.bus)
        return owner.role(start, records, passes, world, watcher, beat=None)

    def learnt(self):
        """The bytes of theta, query after query."""
        return [record.parameters.tobytes() for record in self.journals["l"].records()]


def learnt_in_one_process(file):
    """The same of the product's run in one process."""
    journals = CollaborationJournals.in_memory(file)
    LocalCollaboration(file, journals).run()
    return [record.parameters.tobytes() for record in journals.learner.records()]
