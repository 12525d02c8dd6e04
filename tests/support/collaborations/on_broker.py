"""A collaboration on a broker, one process a party, as operators run it; and what its topics hold."""

from streams.bus.kafka import KafkaBus
from streams.collaboration.file import load_collaboration
from streams.collaboration.local import CollaborationJournals, LocalCollaboration
from streams.collaboration.rights import collaboration_specs
from streams.collaboration.wire import Wire
from tests.support.collaborations.files import OWNERS
from tests.support.processes.forked import Forked
from tests.support.processes.mesh import LiveProcesses


def in_memory(path):
    """Run the same file in this process; return the learner's records by query."""
    file = load_collaboration(path)
    journals = CollaborationJournals.in_memory(file)
    LocalCollaboration(file, journals).run()
    return {one.number: one for one in journals.learner.records()}


class LiveCollaboration(LiveProcesses):
    """The processes of one collaboration."""

    def __init__(self, path, launched=Forked):
        super().__init__(path, load_collaboration(path), launched)
        self.wire = Wire(self.file.resolved)

    def owner(self, name, *options, state="state", label=None):
        """Start an owner."""
        return self.start(label or name, "owner", self.path, name, "--state", self.folder / state, *options)

    def learner(self, *options, state="state", label="analyst"):
        """Start the learner."""
        return self.start(label, "learner", self.path, "--state", self.folder / state, *options)

    def begin(self):
        """Start all."""
        for name in self.file.mesh.owners:
            self.owner(name)
        self.learner()

    def bus(self):
        """A bus that knows all topics."""
        specs = collaboration_specs(self.wire)
        return KafkaBus(self.file.mesh_broker, {spec.name: spec.largest for spec in specs})

    def stored(self, topic):
        """The values of a topic."""
        bus = self.bus()
        try:
            return list(bus.read(topic, bus.span(topic)[0]))
        finally:
            bus.close()

    def queries(self):
        """What the learner has asked: {number: set of the bytes of theta}."""
        found = {}
        for value in self.stored(self.wire.topics.query):
            query = self.wire.query(value)
            found.setdefault(query.number, set()).add(query.parameters.tobytes())
        return found

    def responses(self, owner):
        """What an owner has answered: {number: list of the messages' bytes}."""
        found = {}
        for value in self.stored(self.wire.topics.response(owner)):
            response = self.wire.response(owner, value)
            found.setdefault(response.query, []).append(value)
        return found

    def values(self, owner):
        """What an owner has answered: {number: the bytes of the vector}; one value each."""
        found = {}
        for number, values in self.responses(owner).items():
            assert len(set(values)) == 1, f"{owner} has answered query {number} twice"
            found[number] = self.wire.response(owner, values[0]).response.tobytes()
        return found


def same_as_in_memory(star):
    """Compare all that was said with the same file's run in one process, bit for bit."""
    expected = in_memory(star.path)
    assert star.queries() == {number: {one.parameters.tobytes()} for number, one in expected.items()}
    for owner in OWNERS:
        answers = {
            number - 1: answer.response.tobytes()
            for number, one in expected.items()
            for answer in one.answers
            if answer.owner == owner
        }
        assert star.values(owner) == answers
    return expected
