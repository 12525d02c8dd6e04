"""Nodes killed and started again on the memory bus, by the code that starts them on Kafka: hundreds of seeds.

Whatever came back, no round of an edge's source has two values, everything journalled is sent, and a journal
older than what it has published goes on as another instance.
"""

import copy
import itertools
import random

import pytest

from nodes.machine.events import Decided, Notice, Scored
from nodes.protocol import Noticed
from streams.bus.memory import Faults
from streams.codec import decode_plans, decode_release
from streams.local.mesh import MemoryMesh, MemoryScheduler
from streams.local.run import mesh_parts
from tests.support.meshes.files import changed, counted_ids, loaded, releases

ROUNDS = 30
NAMES = "abcd"
OLD = "the journal is older than what it has published: joining as a new instance"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return loaded(tmp_path_factory.mktemp("mesh"), changed(rounds=ROUNDS))


class Mesh:
    """A mesh in which nodes are given up after 2 s and left out after 4."""

    def __init__(self, file, faults=None, also=lambda *_: None):
        self.notices, self._also = [], also
        parts = mesh_parts(file, round_timeout=2.0, silence=4.0)
        self.mesh = MemoryMesh(parts, self.report, faults=faults, new_id=counted_ids())
        self.nodes, self.broker, self.bus = self.mesh.nodes, self.mesh.broker, self.mesh.bus

    def report(self, name, report):
        self._also(name, report)
        if isinstance(report, Noticed):
            self.notices.append((name, report.notice, report.peer))

    def until(self, condition):
        while not condition():
            assert self.mesh.advance(), "the mesh stands still"
            assert self.broker.now < 500, "the mesh does not end"

    def until_round(self, name, round):
        self.until(lambda: self.last(name) >= round)

    def last(self, name):
        records = self.nodes[name].journal.records()
        return records[-1].round if records else 0

    def edges(self, name):
        return [self.mesh.parts.topics.edge(name, target) for target in self.mesh.parts.context(name).targets]

    def sent(self, name):
        """(instance, round) of what is on each of a node's edges."""
        expected = self.mesh.parts.expected(name)
        found = {}
        for edge in self.edges(name):
            values = self.bus.read(edge, self.bus.span(edge)[0])
            told = [decode_release(value, expected) for value in values]
            found[edge] = {(message.instance, message.round) for message in told}
        return found

    def plans(self):
        """The plan of each round."""
        topics, found = self.mesh.parts.topics, {}
        for value in self.bus.read(topics.topology, self.bus.span(topics.topology)[0]):
            for plan in decode_plans(value, topics.run, self.mesh.parts.digest).plans:
                found.setdefault(plan.round, plan)
        return found

    def finish(self):
        """Run to the end; assert what holds whatever has happened."""
        self.until(lambda: self.mesh.done)
        values, _ = releases(self.mesh)
        assert {key: found for key, found in values.items() if len(found) != 1} == {}
        assert not [notice for notice in self.notices if notice[1] is Notice.EVIDENCE]
        plans = self.plans()
        for name, node in self.nodes.items():
            sent, own = self.sent(name), node.journal.instance
            for record in node.journal.records():
                plan = plans.get(record.round)
                member = plan and plan.member(name)
                if member and member.instance == own:
                    for target in plan.outgoing(name):
                        edge = self.mesh.parts.topics.edge(name, target)
                        assert (own, record.round) in sent[edge]
        return values

    def second(self, name, journal):
        """Start another process of the node, on that journal, beside the one that runs; return the older."""
        older, node = self.nodes[name], copy.copy(self.nodes[name])
        node.journal, node.warnings, node.role, node.replaced = journal, [], None, False
        self.nodes[name] = node
        node.start()
        return older


def faulty(seed, **more):
    """A source of chance, and faults: slots take 0.25 s, so a mesh goes on while a node is away."""
    chance = random.Random(seed)  # noqa: S311 # no secret
    return chance, Faults(seed=seed, duplicate=chance.choice([0.0, 0.2]), slot_time=0.25, **more)


SEEDS = [range(12), pytest.param(range(12, 60), marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
def test_an_old_journal_that_is_put_back_goes_on_as_a_new_instance(file, seeds):
    for seed in seeds:
        chance, faults = faulty(seed)
        mesh, name = Mesh(file, faults), chance.choice(NAMES)
        mesh.until_round(name, chance.randrange(2, 8))
        old, instance = copy.deepcopy(mesh.nodes[name].journal), mesh.nodes[name].journal.instance
        mesh.until_round(name, mesh.last(name) + chance.randrange(1, 6))
        node = mesh.nodes[name]
        node.stop()
        node.journal = old
        mesh.broker.after(chance.choice([0.0, 1.0, 3.0]), node.start)
        mesh.finish()
        assert OLD in node.warnings
        assert node.journal.instance != instance
        assert (node.name, Notice.LISTENED) in {notice[:2] for notice in mesh.notices}


def test_a_lost_tail_of_any_length_up_to_the_horizon_is_found_by_what_was_released(tmp_path):
    """The rows that are left are whole: it is no damage that a checksum could show."""
    file = loaded(tmp_path, changed(rounds=ROUNDS, horizon=4))
    for cut in range(1, file.mesh.horizon + 1):
        mesh, node = Mesh(file, Faults(slot_time=0.25)), "b"
        mesh.until_round(node, 10)
        mesh.nodes[node].stop()
        journal = mesh.nodes[node].journal
        instance, charged = journal.instance, journal.charged
        for _ in range(cut):
            journal._records.pop()
        mesh.nodes[node].start()
        mesh.finish()
        assert OLD in mesh.nodes[node].warnings, cut
        assert journal.instance != instance
        planned = {round for round, plan in mesh.plans().items() if plan.member(node)}
        assert len(planned) >= charged  # what the plans count covers what the journal forgot


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
def test_what_was_journalled_and_never_sent_is_sent_by_the_next_process(file, seeds):
    """An edge takes nothing while its source steps on, given up by the other end; then the source dies."""
    for seed in seeds:
        chance, name = faulty(seed)[0], "abcd"[seed % 4]
        slow = f"tracking.run-1.edge.{name}.{NAMES[(NAMES.index(name) + chance.choice([1, -1])) % 4]}"
        _, faults = faulty(seed, latency={slow: 1000.0})
        mesh = Mesh(file, faults)
        mesh.until_round(name, chance.randrange(4, 20))
        instance = mesh.nodes[name].journal.instance
        mesh.nodes[name].stop()
        lost = {record.round for record in mesh.nodes[name].journal.records()}
        assert len(lost) > 1
        assert mesh.sent(name)[slow] == set()
        mesh.broker.latency = {}
        mesh.nodes[name].start()
        mesh.finish()
        assert mesh.nodes[name].journal.instance == instance
        assert {(instance, round) for round in lost} <= mesh.sent(name)[slow]


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
@pytest.mark.parametrize("copied", ["as it is", "as a new life"])
def test_of_two_processes_on_copies_of_one_folder_the_newest_goes_on(file, seeds, copied):
    """As it is: the journal passes for the one that was copied. A new life: the copy is found out."""
    for seed in seeds:
        chance, faults = faulty(seed)
        mesh, name = Mesh(file, faults), chance.choice(NAMES)
        mesh.until_round(name, chance.randrange(2, 16))
        journal = copy.deepcopy(mesh.nodes[name].journal)
        if copied == "as a new life":
            journal.renew("e" * 32)
        for _ in range(chance.randrange(6)):
            mesh.mesh.advance()
        older = mesh.second(name, journal)
        mesh.finish()
        assert older.replaced
        assert older.role is None
        assert not mesh.nodes[name].replaced
        assert mesh.nodes[name].halted


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
def test_a_node_whose_positions_were_cut_from_the_logs_joins_again(file, seeds):
    """Retention while the node is away: of the topology, its in-edges, or both."""
    for seed in seeds:
        chance, faults = faulty(seed)
        mesh, name = Mesh(file, faults), chance.choice(NAMES)
        topics = mesh.mesh.parts.topics
        mesh.until_round(name, chance.randrange(2, 8))
        node, instance = mesh.nodes[name], mesh.nodes[name].journal.instance
        node.stop()
        other = NAMES[(NAMES.index(name) + 1) % 4]
        mesh.until_round(other, mesh.last(name) + 10)
        edges = [topics.edge(source, name) for source in mesh.mesh.parts.context(name).expected]
        cut = chance.choice([[topics.topology], edges, [topics.topology, *edges]])
        for topic in cut:
            mesh.broker.trim(topic, mesh.bus.end(topic) - chance.randrange(1, 3))
        node.start()
        assert any("where its log is" in warning for warning in node.warnings)
        mesh.finish()
        assert node.journal.instance == instance
        assert (name, Notice.LISTENED) in {notice[:2] for notice in mesh.notices}
        assert mesh.last(name) == ROUNDS + 2


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
def test_nodes_and_schedulers_that_die_again_and_again_release_what_they_would_have(file, seeds):
    """Kills before any effect, with sends under way lost: with nobody given up, the bytes are the same."""
    undisturbed = MemoryMesh(mesh_parts(file), lambda *_: None, new_id=counted_ids())
    undisturbed.run()
    expected, _ = releases(undisturbed)
    for seed in seeds:
        chance = random.Random(seed)  # noqa: S311 # no secret
        edges = [topic for topic in undisturbed.bus.topics if ".edge." in topic]
        latency = dict.fromkeys(chance.sample(edges, 3), 0.5)
        crashes = frozenset((chance.choice(NAMES), chance.randrange(1, 300)) for _ in range(20))
        faults = Faults(seed, 0.2, latency, 0.1, crashes, chance.choice([0.0, 0.3]))
        mesh = MemoryMesh(mesh_parts(file), lambda *_: None, faults=faults, new_id=counted_ids())
        for n in itertools.count(1):
            if mesh.done:
                break
            assert mesh.advance(), "the mesh stands still"
            if n % 500 == seed:
                mesh.scheduler.stop()
                mesh.scheduler = MemoryScheduler(mesh.parts, mesh.broker)
        assert releases(mesh)[0] == expected


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
def test_of_a_rounds_decisions_the_last_counts_and_is_final_once_a_later_rounds_follows(file, seeds):
    """As docs/reference/wire.md promises: who is killed may leave one that nothing was learnt from."""
    others = 0
    for seed in seeds:
        chance, slow = random.Random(seed), NAMES[seed % 4]  # noqa: S311 # no secret
        crashes = {(name, chance.randrange(1, 200)) for name in NAMES if name != slow for _ in range(12)}
        away = {(slow, chance.randrange(1, 200)) for _ in range(6)}
        faults = Faults(seed=seed, slot_time=0.25, crash_before=crashes | away, restart_after=3.0)
        written, learnt = {name: [] for name in NAMES}, {}

        def report(name, report, written=written, learnt=learnt):
            match report:
                case Decided():
                    written[name].append((report.round, report.decision.tobytes()))
                case Scored():
                    learnt[name, report.round] = report.decision.tobytes()

        mesh = Mesh(file, faults, report)
        mesh.finish()
        for name, decisions in written.items():
            rounds = [round for round, _ in decisions]
            assert rounds == sorted(rounds)  # none comes behind one of a later round
            last = dict(decisions)
            others += len(set(decisions)) - len(last)
            assert all(last[round] == value for (of, round), value in learnt.items() if of == name)
    assert others > 0  # rounds with two values are among them
