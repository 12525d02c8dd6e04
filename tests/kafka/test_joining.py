"""Six nodes become eight, and eight become five, on a broker and under load: nobody loses a round."""

from collections import defaultdict

import pytest
import yaml

from streams.bus.kafka import KafkaBus
from streams.bus.provision import provision
from streams.bus.topic_specs import mesh_specs
from streams.mesh.file import load
from streams.state.spends import all_spends
from tests.kafka.test_lives import last_round
from tests.support.meshes.on_broker import moments_mesh_file, small_mesh_file
from tests.support.processes.mesh import LiveMesh, released, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SIX, EIGHT, FIVE = "abcdef", "abcdefgh", "abdef"
RATE = 40
SERVICE = {
    "horizon": 16,
    "rounds": "none",
    "round_timeout": 1,
    "silence": 60,
    "slots": {"by": "count", "size": 1, "timeout": 1},
    "privacy": {"noise": "exact"},
}
"""Nobody is silent, however slow the machine is; where an edge is dropped, its other end waits a second."""


class Changing(LiveMesh):
    """A mesh whose file changes while it runs."""

    def __init__(self, whole):
        self.whole = yaml.safe_load(whole.read_text())
        self.names = {name[0]: name for name in self.whole["mesh"]["nodes"]}
        self.folder = whole.parent
        super().__init__(self.written(SIX, 0))

    def written(self, letters, generation):
        """Write the file of these nodes; return its path."""
        names = [self.names[letter] for letter in letters]
        shared = self.whole["mesh"] | {"nodes": names, "generation": generation}
        own = {name: self.whole["nodes"][name] for name in names}
        path = self.folder / f"mesh-{generation}.yaml"
        path.write_text(yaml.safe_dump(self.whole | {"mesh": shared, "nodes": own}))
        return path

    def take(self, letters, generation):
        """Change the file: topics, the nodes one after another, then the scheduler."""
        self.path = self.written(letters, generation)
        provision(load(self.path))
        for letter in letters:
            name = self.names[letter]
            new = name not in self.processes
            if not new:
                self.processes[name].terminate()
                assert self.processes[name].ends() == 0, self.processes[name].log[-2000:]
            self.node(name)
            if new:
                self.fed(name)
                wait_until(lambda name=name: "goes on" in self.processes[name].log)
            else:
                self.go_on([letter])
        self.scheduler(f"scheduler-{generation}")

    def fed(self, name):
        self.start(f"feed-{name}", "feed", self.path, name, "--rate", RATE)

    def go_on(self, letters, rounds=3):
        """Wait until each of them has gone on for some rounds."""
        goals = {letter: last_round(self, self.names[letter]) + rounds for letter in letters}
        wait_until(
            lambda: all(last_round(self, self.names[letter]) >= goal for letter, goal in goals.items())
        )

    def leave(self, letters):
        """Ask nodes to leave, as their owners would; return the last round of each that the command says."""
        names, state = {letter: self.names[letter] for letter in letters}, self.folder / "state"
        asked = {
            letter: self.start(f"leave-{name}", "leave", self.path, name, "--state", state)
            for letter, name in names.items()
        }
        for command in asked.values():
            assert command.ends() == 0, command.log
            assert "takes part until then" in command.log
        said = {
            letter: command.log.split("after round ")[1].split(";")[0] for letter, command in asked.items()
        }
        return {letter: int(last.replace(",", "")) for letter, last in said.items()}

    def rounds(self, generations):
        """What the edges of these files hold: the rounds of each node, and how many values each has."""
        found = defaultdict(lambda: defaultdict(set))
        for generation in generations:
            file = load(self.folder / f"mesh-{generation}.yaml")
            topics = {spec.name: spec.largest for spec in mesh_specs(file.resolved)}
            bus = KafkaBus(file.mesh_broker, topics)
            try:
                held = released(file, lambda topic, bus=bus: bus.read(topic, bus.span(topic)[0]))
            finally:
                bus.close()
            for (source, round_), values in held.items():
                found[source[0]][round_] |= values
        return found


def gradients(folder, address):
    """The mesh of sensors."""
    return small_mesh_file(folder, address, **SERVICE, nodes=list(EIGHT))


def moments(folder, address):
    """A mesh whose releases are longer than its decisions, and whose joiners know no earlier weights."""
    return moments_mesh_file(folder, address, names=EIGHT, records=20_000, **SERVICE)


@pytest.mark.parametrize("whole_file", [gradients, moments])
def test_six_become_eight_and_eight_become_five_under_load(tmp_path, broker, whole_file):
    whole = whole_file(tmp_path, broker.address)
    with Changing(whole) as mesh:
        for name in mesh.file.mesh.nodes:
            mesh.fed(name)
        mesh.scheduler("scheduler-0")
        mesh.nodes()
        mesh.go_on(SIX, 5)
        mesh.take(EIGHT, 1)
        mesh.go_on(EIGHT, 5)
        superseded(mesh.processes.pop("scheduler-0"), lacks=1, own=0)
        lasts = mesh.leave("cgh")
        for letter in lasts:
            process = mesh.processes[mesh.names[letter]]
            assert process.ends() == 0, process.log[-2000:]
            assert "the node has left, as asked" in process.log
        mesh.take(FIVE, 2)
        mesh.go_on(FIVE, 5)
        superseded(mesh.processes.pop("scheduler-1"), lacks=2, own=1)
        found = mesh.rounds([0, 1, 2])
        spends = {letter: all_spends(tmp_path / "state", mesh.names[letter]) for letter in lasts}
        mesh.check()
    assert all(len(values) == 1 for of in found.values() for values in of.values())
    for letter in FIVE:
        assert sorted(found[letter]) == list(range(1, max(found[letter]) + 1)), letter
    assert all(max(found[letter]) >= last for letter, last in lasts.items())
    assert min(found["g"]) > 5  # as a full member, after it has listened
    for (spend,) in spends.values():
        assert spend.charged > 5
        assert not spend.open


def superseded(scheduler, *, lacks, own):
    """Assert that a scheduler with an older file has ended with a line that says which it lacks."""
    assert scheduler.ends() == 2, scheduler.log[-2000:]
    said = f"generation {lacks}, which this process lacks (its own: {own}): a scheduler needs that file"
    assert said in scheduler.log.splitlines()[-1]


def test_a_node_with_an_old_file_says_once_which_it_lacks(tmp_path, broker):
    whole = small_mesh_file(tmp_path, broker.address, **SERVICE)
    with LiveMesh(whole) as mesh:
        names = list(mesh.nodes())
        tree = yaml.safe_load(whole.read_text())
        tree["mesh"]["generation"] = 4
        newer = tmp_path / "newer.yaml"
        newer.write_text(yaml.safe_dump(tree))
        mesh.start("scheduler", "scheduler", newer)
        wait_until(lambda: all(last_round(mesh, name) >= 3 for name in names))
        lines = [mesh.processes[name].log for name in names]
    assert all(
        log.count("generation 4, which this process lacks (its own: 0): it goes on") == 1 for log in lines
    )
