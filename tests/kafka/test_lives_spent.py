"""What a node's process finds of earlier lives on its data broker, wherever their folders are."""

import json
import re
import shutil
import uuid
from contextlib import ExitStack, closing

import pytest
import typer
import yaml
from typer.testing import CliRunner

from streams.bus.connection import PATIENCE
from streams.bus.provision import Admin, provision
from streams.cli.budget import budget
from streams.ledger import known_spends
from streams.live.spend import NodeOptions, NodeSpend
from streams.mesh.file import load
from streams.mesh.settings.files import read_yaml
from streams.state.journal import open_journal
from streams.state.spends_topic import SpendsBus, SpendsTopic, written
from tests.support.brokers.topics import until
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.accounts import record

pytestmark = pytest.mark.kafka


class Lives:
    """One node over the same data topic, in runs and meshes and folders of any names."""

    def __init__(self, folder, address):
        self.folder = folder
        path = small_mesh_file(folder, address, privacy={"noise": "exact", "epsilon": 1})
        self.tree = read_yaml(path)
        self.file = load(path, {})
        self.node = next(iter(self.file.mesh.nodes))
        self.topics = self.file.data_topics(self.node)  # whichever mesh reads them
        provision(self.file)

    def mesh(self, run="run-1", **changes):
        """The mesh file for that run; nothing of the mesh broker is asked for."""
        path = self.folder / f"{run}.yaml"
        path.write_text(yaml.safe_dump(self.tree | {"mesh": self.tree["mesh"] | {"run": run} | changes}))
        return load(path, {})

    def life(self, state, run="run-1", *, named=False, rounds=5, killed=False, options=None, **changes):
        """Live so many rounds in that folder, and return what is said at the start."""
        file, where = self.mesh(run, **changes), self.folder / state
        where.mkdir(exist_ok=True)
        spend = NodeSpend(file, self.node, NodeOptions(where, **(options or {})))
        node = file.resolved.node(self.node)
        around, price = node.context, node.price
        with ExitStack() as stack:
            journal = stack.enter_context(open_journal(where, self.node, around, uuid.uuid4().hex, price))
            spends = stack.enter_context(closing(SpendsBus(file.brokers(self.node).data, [self.topics])))
            topic = SpendsTopic(spends, self.topics)
            spend.check(journal, topic, lambda: named)
            said = spend.begin(journal, topic).sentence()
            before = journal.charged
            for charged in range(before + 1, before + rounds + 1):
                journal.append(record(charged, position=((0, charged),)))
            if not killed:
                spend.end(journal)
                assert spends.flush(PATIENCE)  # as a process does once for its nodes
        return said

    def all_runs(self, run, state=None):
        """What `budget --json` says of all runs."""
        app = typer.Typer(pretty_exceptions_enable=False)
        app.command()(budget)
        options = [] if state is None else ["--state", str(self.folder / state)]
        path = self.folder / f"{run}.yaml"
        outcome = CliRunner().invoke(app, [str(path), self.node, "--json", *options], catch_exceptions=False)
        assert outcome.exit_code == 0, outcome.output
        return json.loads(outcome.stdout)["nodes"][0]["all_runs"]


def epsilon(said):
    """What the sentence adds up to for a record."""
    return float(re.search(r"over all runs each record is protected with epsilon = (\S+)", said)[1])


@pytest.fixture
def lives(tmp_path, broker):
    return Lives(tmp_path, broker.address)


def test_three_runs_in_two_folders_are_three(lives):
    assert lives.life("s1", "run-1") == ""
    assert epsilon(lives.life("s2", "run-2")) == 2
    assert epsilon(lives.life("s1", "run-3")) == 3
    found = lives.all_runs("run-3", "s1")
    assert (found["epsilon"], found["stream_epsilon"]) == (3, 15)
    assert lives.all_runs("run-2", "s2")["epsilon"] == 3


def test_a_second_life_of_one_run_in_another_folder_is_a_second_spend(lives):
    lives.life("s1")
    assert epsilon(lives.life("s2", named=True)) == 2


def test_two_meshes_that_read_one_topic_know_of_each_other(lives):
    lives.life("s1")
    assert epsilon(lives.life("s2", name="another")) == 2
    assert epsilon(lives.life("s1")) == 2


def test_a_killed_life_whose_folder_is_lost_cost_nobody_knows_how_much(lives):
    lives.life("s1", killed=True)
    shutil.rmtree(lives.folder / "s1")
    assert epsilon(lives.life("s1", "run-2")) == 2
    found = lives.all_runs("run-2", "s1")
    assert found["epsilon"] == 2
    assert found["stream_epsilon"] is None  # 10 is true; 5 would be said without the killed one


def test_a_killed_life_whose_journal_is_there_is_told_by_it(lives):
    lives.life("s1", killed=True)
    assert epsilon(lives.life("s1", "run-2")) == 2
    assert lives.all_runs("run-2", "s1")["stream_epsilon"] == 10


def test_what_a_topic_has_forgotten_is_written_again(lives):
    lives.life("s1")
    broker, name = lives.file.brokers(lives.node).data, lives.file.data_topics(lives.node).spends
    with Admin(broker) as admin:
        admin._client.delete_topics([name])
        until(lambda: not admin.topics([name]))
    provision(lives.file)
    assert epsilon(lives.life("s1", "run-2")) == 2
    assert epsilon(lives.life("s2", "run-3")) == 3


def test_once_the_data_topic_was_made_anew_earlier_lives_may_have_read_any_record(lives):
    lives.life("s1")
    broker, name = lives.file.brokers(lives.node).data, lives.file.data_topics(lives.node).records
    with Admin(broker) as admin:
        admin._client.delete_topics([name])
        until(lambda: not admin.topics([name]))
    provision(lives.file)
    lives.life("s2", "run-2")
    lives.life("s2", "run-3")
    file = lives.mesh("run-3")
    known = known_spends(file, [lives.node], lives.folder / "s2", written(file, [lives.node]))[lives.node]
    assert {life.run: bool(life.spans) for life in known.earlier} == {"run-1": False, "run-2": True}
    assert known.total.epsilon == 3


def test_another_folder_keeps_what_its_process_was_told_by_the_broker(lives):
    lives.life("s1")
    assert epsilon(lives.life("s2", name="another")) == 2
    file = lives.mesh("run-1", name="another")
    known = known_spends(file, [lives.node], lives.folder / "s2")[
        lives.node
    ]  # as `up` ends, without a broker
    assert known.total.epsilon == 2
    assert f"run-1 (of {lives.file.mesh.name}) learnt from some of the same records" in known.sentence()
