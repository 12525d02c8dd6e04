"""A broker that forgets what it has acknowledged: plans, or all, by the code that starts nodes on Kafka.

Whatever it has lost, the mesh goes on without anybody's help, and nobody has two values for a round.
"""

import random

import pytest

from nodes.machine.events import Notice
from streams.bus.memory import Faults
from streams.local.mesh import MemoryScheduler
from tests.simulation.test_recovery import Mesh
from tests.support.meshes.files import changed, loaded, releases

ROUNDS = 100
NAMES = "abcd"
SEEDS = [range(3), pytest.param(range(3, 20), marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return loaded(tmp_path_factory.mktemp("mesh"), changed(rounds=ROUNDS, horizon=16))


class Forgetful(Mesh):
    """A mesh whose broker may lose the tails of its logs, or all of them, while every process is down."""

    def __init__(self, file, seed):
        self.chance = random.Random(seed)  # noqa: S311 # no secret
        super().__init__(file, Faults(seed=seed, slot_time=0.25, duplicate=self.chance.choice([0.0, 0.2])))
        self.before = {}

    def stop(self):
        self.mesh.scheduler.stop()
        for node in self.nodes.values():
            node.stop()
        self.before = releases(self.mesh)[0]
        self.charged = {name: node.journal.records()[-1].charged for name, node in self.nodes.items()}

    def lose(self, topic, share):
        """Drop the newest `share` of a topic's records."""
        records = self.broker.logs[topic].records
        del records[len(records) - round(share * len(records)) :]

    def restart(self):
        """Start everything again, one after another, as a supervisor does."""
        mesh = self.mesh
        late = self.chance.choice([0.0, 2.0])  # then the scheduler has planned anew before they look
        for node in self.nodes.values():
            self.broker.after(late + self.chance.choice([0.0, 0.5, 1.0]), node.start)

        def plan():
            mesh.scheduler = MemoryScheduler(mesh.parts, self.broker)

        self.broker.after(self.chance.choice([0.0, 1.0, 3.0]) if not late else 0.0, plan)
        self.since = self.broker.now

    def back(self):
        """All have stepped since, within 30 s; then the run goes on to its end."""
        stepped = {name: self.nodes[name].journal.records()[-1].stepped for name in NAMES}
        self.until(
            lambda: all(self.nodes[name].journal.records()[-1].stepped > stepped[name] + 1 for name in NAMES)
        )
        assert self.broker.now - self.since < 30
        self.until(lambda: self.mesh.done)
        for (source, round), found in releases(self.mesh)[0].items():
            assert len(found | self.before.get((source, round), set())) == 1, "a round with two values"
        assert not [notice for notice in self.notices if notice[1] is Notice.EVIDENCE]
        for name, node in self.nodes.items():
            newest = node.journal.records()[-1]
            assert self.charged[name] < newest.charged <= newest.stepped

    def topics(self, *kinds):
        """The mesh's topics of these kinds."""
        return [topic for topic in self.broker.logs if topic.split(".")[2] in kinds]


ALL = ("topology", "progress", "edge")


@pytest.mark.parametrize("kinds", [("topology",), ("topology", "progress"), ALL], ids="-".join)
@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
def test_the_mesh_is_back_after_its_broker_has_lost_acknowledged_records(file, seeds, kinds):
    for seed in seeds:
        mesh = Forgetful(file, seed)
        mesh.until_round("a", mesh.chance.randrange(10, 40))
        mesh.stop()
        share = mesh.chance.choice([0.2, 0.5, 0.9, 1.0])
        for topic in mesh.topics(*kinds):
            mesh.lose(topic, share)
        mesh.restart()
        mesh.back()
