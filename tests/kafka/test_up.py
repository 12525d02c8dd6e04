"""`mirrormesh up`: everything of a mesh on this machine, from a mesh file alone to nothing left running."""

import json
import os
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from streams.bus.bus import BusError
from streams.bus.logs import Logs, reach
from streams.bus.provision import provision
from streams.live.scheduler_process import run_scheduler
from streams.mesh.file import MeshFileError, load
from streams.runtime.process import Stop
from streams.state.journal_file import JournalReader
from streams.status.mesh_status import progress
from streams.tools.broker import broker as development
from tests.support.brokers.development import free_port
from tests.support.brokers.feeding import Rations, stored
from tests.support.brokers.topics import PATIENCE, connection
from tests.support.meshes.files import changed, written
from tests.support.processes.command import LONG
from tests.support.processes.mesh import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COMMAND = "import typer; from streams.cli.up import up; typer.run(up)"
SOON = f"from streams.tools.up import programs; programs.lead = lambda _: 1.0; {COMMAND}"
"""A replay that begins in a second: slots that are over by then are made up for."""
ROUNDS = 60
SLOWLY = ("--rate", str(ROUNDS / PATIENCE))
"""Nothing that a test waits for takes as long as this run."""


class Upped:
    """A mesh of two nodes, or more, and the `up` that runs it. Each costs the start of two processes."""

    def __init__(self, folder, servers, size=2):
        mark = uuid.uuid4().hex[:8]
        self.names = [f"{name}-{mark}" for name in "abc"[:size]]
        tree = changed(name=f"test-{mark}", nodes=self.names, rounds=ROUNDS, round_timeout="none", silence=60)
        tree["mesh"]["slots"] = {"by": "count", "size": 1, "timeout": "none"}
        tree["nodes"] = {name: {"source": {"kind": "localisation"}} for name in self.names}
        tree["brokers"] = {side: {"servers": servers} for side in ("mesh", "data")} | {"trust_broker": True}
        self.mesh = tree["mesh"]["name"]
        self.folder, self.servers, self.state = folder, servers, folder / "state"
        self.tree, self.path = tree, written(folder, tree)
        self.processes, self._rations = [], Rations(self.path)

    def up(self, *options, command=COMMAND):
        """Start it in a state folder of its own."""
        return self.up_where_it_likes("--state", str(self.state), *options, command=command)

    def up_where_it_likes(self, *options, command=COMMAND):
        """Start it."""
        number = len(self.processes)
        with (self.folder / f"up-{number}.out").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-c", command, str(self.path), *options],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        self.processes.append(process)
        return process

    @property
    def said(self):
        """What the last one has said."""
        return (self.folder / f"up-{len(self.processes) - 1}.out").read_text()

    def ends(self, seconds=LONG):
        """Wait for the last one's end; return its exit code."""
        try:
            return self.processes[-1].wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"up does not end: {self.said[-3000:]}") from None

    def allow(self, records):
        """Let every node have so many records in all, where `up` feeds nobody."""
        for name in self.names:
            self._rations.allow(name, records)

    def stepped(self):
        """The round that every node has stepped."""
        found = [progress(self.state, name) for name in self.names]
        return min(0 if one is None else one.round for one in found)

    def children(self):
        """The processes of this mesh file, `up` aside: {command line: id}."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except (OSError, UnicodeDecodeError):
                continue
            if str(self.path) in words and "streams.tools.up" in words:
                found[" ".join(words[words.index("streams.tools.up") + 1 :])] = int(entry.name)
        return found

    def node(self, name):
        """The process id of a node; None where it has none."""
        begins = f"node {self.path} {name} "
        return next((pid for line, pid in self.children().items() if line.startswith(begins)), None)

    def broker_runs(self):
        """Whether there is a broker in the state folder, and it runs."""
        found = development.status(self.state / "broker")
        return found is not None and found.running

    def close(self):
        """Leave nothing behind, whatever has happened."""
        for process in self.processes:
            process.kill()
            process.wait()
        for pid in self.children().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        development.stop(self.state / "broker")


@pytest.fixture
def upped(broker, tmp_path, request):
    """A mesh on a broker of its own, which is not there yet. (`broker`: skip where there can be none.)"""
    made = Upped(tmp_path, f"127.0.0.1:{free_port()}", getattr(request, "param", 2))
    yield made
    made.close()


@pytest.fixture
def guest(broker, tmp_path, request):
    """A mesh on a broker that is there already."""
    made = Upped(tmp_path, broker.address, getattr(request, "param", 2))
    yield made
    made.close()


@pytest.mark.parametrize("upped", [3], indirect=True)
def test_from_a_mesh_file_alone_to_the_end_of_the_run(upped):
    upped.up("--metrics-from", str(free_port() + 500))
    assert upped.ends() == 0, upped.said
    assert upped.stepped() == ROUNDS + 1  # a closing one
    assert not upped.children()
    assert not upped.broker_runs()
    said = upped.said
    assert f"{upped.servers}: started in {upped.state}/broker" in said
    assert "1 scheduler, 3 nodes, 3 feeders" in said
    assert f"the run is over: round {ROUNDS} was its last" in said
    assert f"{ROUNDS} rounds in " in said
    assert said.count("The same holds for") + said.count("Nothing in node") == 2
    upped.up()
    assert upped.ends() == 0, upped.said
    assert "No round was stepped." in upped.said
    assert not upped.broker_runs()


@pytest.mark.parametrize("guest", [3], indirect=True)
def test_nodes_share_processes_where_it_is_asked_for(guest):
    provision(load(guest.path))
    guest.up("--plain", "--processes", "2", "--no-feed")
    union = f"node {guest.path} {guest.names[1]} {guest.names[2]} "
    wait_until(lambda: any(line.startswith(union) for line in guest.children()))
    guest.allow(ROUNDS)
    assert guest.ends() == 0, guest.said
    assert guest.stepped() == ROUNDS + 1  # a closing one
    assert "1 scheduler, 3 nodes in 2 processes" in guest.said


def test_a_node_for_which_nothing_can_be_scored_is_named_and_runs(guest):
    name = guest.names[0]
    guest.tree["mesh"]["rounds"] = 5
    guest.tree["nodes"][name]["score"] = {"input": "payments", "output": "scores"}
    guest.path = written(guest.folder, guest.tree)
    guest.up("--plain")
    assert guest.ends() == 0, guest.said
    (line,) = [line for line in guest.said.splitlines() if line.startswith("not scored")]
    assert f" for {name}: {guest.path}: nodes.{name}.source: must be of records with a schema" in line
    assert "scorer" not in guest.said
    assert guest.stepped() == 6  # a closing one


def test_a_feeder_of_malformed_records_is_done_and_its_line_is_said_again(guest):
    """Code 3 is `up`'s and the feeder's alone: the node and the scheduler of such records end as ever."""
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "distance"}, "timestamp": "at"}
    name = guest.names[0]
    guest.tree["nodes"][name] = {"source": {"kind": "json-lines", "path": "a.jsonl", "schema": schema}}
    (guest.folder / "a.jsonl").write_text(
        '{"x": 1, "y": "secret", "distance": 1, "at": 1700000000000}\n' * ROUNDS
    )
    guest.path = written(guest.folder, guest.tree)
    guest.up("--plain")
    assert guest.ends() == 3, guest.said
    assert guest.stepped() == ROUNDS + 1  # a closing one
    line = f"Malformed records: {name} {ROUNDS} of {ROUNDS} (y: not a number)."
    *_, warning, last = guest.said.splitlines()
    assert last == line
    assert warning.startswith(f"Warning: nodes.{name}.source.schema.timestamp: the numbers look like milli")
    assert "has failed" not in guest.said
    logs = {path.name: path.read_text() for path in (guest.state / "logs").iterdir()}
    assert [name for name, log in sorted(logs.items()) if "Malformed" in log] == [f"feed-{name}.log"]
    assert not any("secret" in log for log in logs.values())


def test_signals_end_everything_and_a_later_start_finishes_the_run_unless_a_topic_differs(upped):
    before = {}
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        process, stepped = upped.up(*SLOWLY), upped.stepped()
        wait_until(lambda stepped=stepped: upped.stepped() > stepped)
        with busy():
            process.send_signal(number)
            assert upped.ends() == code
        assert "killed" not in upped.said
        nothing_runs(upped)
        before = before or {name: instance(upped, name) for name in upped.names}
    assert upped.stepped() < ROUNDS

    tree = yaml.safe_load(upped.path.read_text())
    written(upped.folder, tree | {"mesh": tree["mesh"] | {"horizon": 4000}})
    upped.up()
    assert upped.ends() == 1
    assert "retention.bytes" in upped.said
    nothing_runs(upped)

    written(upped.folder, tree)
    upped.up()
    assert upped.ends() == 0, upped.said
    assert upped.stepped() == ROUNDS + 1  # a closing one
    assert {name: instance(upped, name) for name in upped.names} == before
    development.start(upped.state / "broker")  # as is said at the end
    wait_until(lambda: records_fed(upped) == dict.fromkeys(upped.names, ROUNDS))  # the feeders went on, too


@contextmanager
def busy():
    """Keep every core busy, three times over."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def nothing_runs(upped):
    """Assert that neither a process of the mesh nor its broker is left."""
    assert not upped.children()
    assert not upped.broker_runs()


def instance(upped, name):
    with JournalReader(upped.state / f"{name}.journal") as journal:
        return journal.instance


def records_fed(upped):
    """How many records each data topic holds."""
    logs = Logs(connection(upped.servers))
    try:
        return {name: logs.span(load(upped.path).data_topics(name).records)[1] for name in upped.names}
    except BusError:  # a broker that has just started leads no partition yet
        return {}
    finally:
        logs.close()


def test_a_node_that_is_killed_is_started_again_and_the_broker_that_was_there_stays(guest, broker):
    cluster = reach(connection(broker.address))
    provision(load(guest.path))
    guest.allow(ROUNDS // 2)
    guest.up("--no-feed")
    wait_until(lambda: guest.stepped() >= 10)
    name = guest.names[1]
    before = instance(guest, name)
    os.kill(guest.node(name), signal.SIGKILL)
    guest.allow(ROUNDS)
    assert guest.ends() == 0, guest.said
    assert guest.stepped() == ROUNDS + 1  # a closing one
    assert f"node {name} was killed (SIGKILL), and starts again in 1 s" in guest.said
    assert instance(guest, name) == before
    assert f"{guest.servers}: used" in guest.said
    assert not (guest.state / "broker").exists()
    assert reach(connection(broker.address)) == cluster


def test_killed_outright_it_leaves_its_broker_which_the_next_one_takes_over_and_starts_again(upped):
    process = upped.up("--no-feed")
    wait_until(lambda: len(upped.children()) == 3)  # the topics are there
    upped.allow(ROUNDS // 3)
    wait_until(lambda: upped.stepped() >= 3)
    process.kill()
    wait_until(lambda: not upped.children())
    assert upped.stepped() < ROUNDS  # not because the run was over
    assert upped.broker_runs()

    upped.up("--no-feed")
    wait_until(lambda: len(upped.children()) == 3)
    upped.allow(2 * ROUNDS // 3)
    wait_until(lambda: upped.stepped() > ROUNDS // 3)
    os.kill(development.status(upped.state / "broker").pid, signal.SIGKILL)
    wait_until(lambda: f"{upped.servers} runs again" in upped.said)
    upped.allow(ROUNDS)
    assert upped.ends() == 0, upped.said
    assert "found running" in upped.said
    assert f"{upped.servers} has died, and is started again" in upped.said
    assert upped.stepped() == ROUNDS + 1  # a closing one
    assert not upped.broker_runs()


def test_a_new_run_finds_the_old_one_and_counts_it(guest):
    text = guest.path.read_text().replace("simulated", "exact").replace("rounds: 60", "rounds: 20")
    guest.path.write_text(text)
    guest.up_where_it_likes()
    assert guest.ends() == 0, guest.said
    assert f"mirrormesh-state/{guest.mesh}: " in guest.said
    assert "over all runs" not in guest.said
    guest.path.write_text(text.replace("run-1", "run-2"))
    guest.up_where_it_likes()
    assert guest.ends() == 0, guest.said
    said = "Run run-1 learnt from some of the same records: over all runs each record is protected with eps"
    assert f"{said}ilon = 2 (pure)" in guest.said
    guest.state = guest.folder / "mirrormesh-state" / guest.mesh
    assert guest.stepped() == 21


def by_time(upped, rounds, start, horizon):
    """Give each node a record a second, from `start` on, in slots of a second."""
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}, "timestamp": "at"}
    rows = [{"x": k % 5, "y": 1, "z": k % 3, "at": start + k + 0.5} for k in range(rounds)]
    (upped.folder / "records.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    upped.tree["mesh"] |= {"loss": "squared", "rounds": rounds, "round_timeout": 5, "horizon": horizon}
    upped.tree["mesh"]["slots"] = {"by": "time", "size": 1, "period": 1, "start": start}
    own = {"source": {"kind": "json-lines", "path": "records.jsonl", "schema": schema}, "predictions": True}
    upped.tree["nodes"] = dict.fromkeys(upped.names, own)
    written(upped.folder, upped.tree)


def test_slots_in_the_past_are_refused_and_a_replay_moves_their_records_and_loses_none(guest):
    by_time(guest, 6, 1_700_000_000, 600)
    guest.up()
    assert guest.ends() != 0
    assert "mesh.slots.start: slot 1 ended " in guest.said
    guest.up("--replay", command=SOON)
    assert guest.ends() == 0, guest.said
    assert "the time of every record moves by " in guest.said
    begun = load(guest.state / "replay.yaml").mesh.slots.start
    for name in guest.names:
        messages = stored(connection(guest.servers), load(guest.path).data_topics(name).records)
        assert [message.timestamp()[1] / 1000 for message in messages] == [begun + k + 0.5 for k in range(6)]
        predicted = stored(connection(guest.servers), load(guest.path).data_topics(name).predictions)
        assert [json.loads(message.value())["round"] for message in predicted] == list(range(1, 7))


def test_a_scheduler_refuses_a_run_that_was_over_before_it_began(guest):
    by_time(guest, 20, 1_700_000_000, 600)
    file = load(guest.path)
    provision(file)
    with Stop() as stop, pytest.raises(MeshFileError, match=r"mesh\.slots\.start: slot 1 ended "):
        run_scheduler(file, stop)


def framed(guest, rounds=30):
    """The first node's topic gets records that a registry's frame makes unreadable, from no feed of ours."""
    schema = {"features": {"u": "number", "v": "number"}, "label": {"column": "y"}}
    source = {"kind": "json-lines", "schema": schema}
    guest.tree["mesh"] |= {"rounds": rounds, "loss": "squared"}
    guest.tree["nodes"] = {name: {"source": source} for name in guest.names}
    guest.path = written(guest.folder, guest.tree)
    file, producer = load(guest.path), Producer({"bootstrap.servers": guest.servers})
    provision(file)
    for name in guest.names:
        frame = b"\0\0\0\0\7" if name == guest.names[0] else b""
        for _ in range(rounds):
            producer.produce(file.data_topics(name).records, frame + b'{"u": 1, "v": 0, "y": 1}')
    assert producer.flush(PATIENCE) == 0


def test_records_that_nobody_can_read_are_told_to_their_owner_whoever_wrote_them(guest):
    framed(guest)
    guest.up("--plain", "--no-feed")
    assert guest.ends() == 3, guest.said
    name = guest.names[0]
    line = f"Malformed records: {name} 30 of 30 (begins with a zero byte, as a schema registry's frame does)."
    assert line in guest.said.splitlines()
    logs = {path.name: path.read_text() for path in (guest.state / "logs").iterdir()}
    assert not any("alformed" in log or "zero byte" in log for log in logs.values())
    letters = [
        json.loads(letter.value()) for letter in stored(connection(guest.servers), letters_of(guest, name))
    ]
    assert sum(letter.get("records", 0) for letter in letters) <= 30
    assert letters[-1]["faults"] == {"begins with a zero byte, as a schema registry's frame does": 30}
    assert stored(connection(guest.servers), letters_of(guest, guest.names[1])) == []


def letters_of(guest, name):
    return load(guest.path).data_topics(name).dead_letters


def test_a_feeder_whose_topic_holds_records_of_others_goes_on_behind_them(guest):
    framed(guest)
    schema = guest.tree["nodes"][guest.names[0]]["source"]["schema"]
    (guest.folder / "a.jsonl").write_text('{"u": 1, "v": 0, "y": 1}\n' * 40)
    source = {"kind": "json-lines", "path": "a.jsonl", "schema": schema}
    guest.tree["nodes"][guest.names[1]] = {"source": source}
    guest.path = written(guest.folder, guest.tree)
    guest.up("--plain")
    guest.ends()
    assert "has failed" not in guest.said
    assert guest.processes[-1].returncode in {0, 3}  # 3: the first node's records are malformed


def test_files_that_end_before_the_rounds_end_the_run(guest):
    schema = {"features": {"u": "number", "v": "number"}, "label": {"column": "y"}}
    slots = guest.tree["mesh"]["slots"] | {"size": 5}
    guest.tree["mesh"] |= {"rounds": 10_000, "loss": "squared", "slots": slots}
    (guest.folder / "a.jsonl").write_text('{"u": 1, "v": 0, "y": 1}\n' * 12)
    source = {"kind": "json-lines", "path": "a.jsonl", "schema": schema}
    guest.tree["nodes"] = {name: {"source": source} for name in guest.names}
    guest.path = written(guest.folder, guest.tree)
    guest.up("--plain")
    assert guest.ends() == 0, guest.said
    assert "no node here has a full slot left after round 2" in guest.said
    assert f"records that fill no slot, as a topic has no end: {guest.names[0]} 2" in guest.said
    assert guest.stepped() == 2
