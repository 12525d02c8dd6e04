"""What `up` runs and with which arguments, its folders, and the mesh file of a replay."""

import json
from dataclasses import replace

import pytest
import yaml

from streams.collaboration.file import load_collaboration
from streams.live.node_process import check_shared
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFileError, load
from streams.records.sources import open_source
from streams.state.folder import StateFolder
from streams.tools.feed.lines import FeedOptions, opened
from streams.tools.up import collaboration as up_collaboration
from streams.tools.up import programs
from streams.tools.up.programs import PARENT, Options, check_replay, default_folder, replayed
from tests.support.brokers.feeding import SCHEMA
from tests.support.collaborations import folders as collaborations
from tests.support.meshes.files import changed, loaded, with_value, written
from tests.support.nodes.accounts import journal, record

BY_TIME = {"by": "time", "period": 1, "start": 0}


def file_of(folder, sources=None, **mesh):
    tree = changed(**mesh)
    tree["brokers"] = {"mesh": {"servers": "127.0.0.1:1"}, "data": {"servers": "127.0.0.1:2"}}
    for name, source in (sources or {}).items():
        tree["nodes"][name] = source if isinstance(source, str) else {"source": source}
    return loaded(folder, tree)


def of_file(path):
    return {"kind": "json-lines", "schema": SCHEMA} | ({} if path is None else {"path": path})


def test_a_scheduler_the_nodes_and_their_feeders(tmp_path):
    file, options = file_of(tmp_path), Options(tmp_path / "state")
    assert programs.scheduler(file, None).arguments == ("scheduler", str(file.path))
    nodes = dict(programs.nodes(file, options, None))
    assert list(nodes) == list("abcd")
    assert nodes["b"].arguments == ("node", str(file.path), "b", "--state", str(tmp_path / "state"))
    feeders = dict(programs.feeders(file, options, None))
    assert feeders["d"].arguments == ("feed", str(file.path), "d")
    labels = [one.label for one in (programs.scheduler(file, None), *nodes.values(), *feeders.values())]
    logs = {StateFolder(tmp_path).log(label).name for label in labels}
    assert len(logs) == 9
    assert {"scheduler.log", "node-a.log", "feed-a.log"} < logs


@pytest.mark.parametrize("other_data", [False, True])
def test_the_word_that_a_run_reads_other_data_reaches_all_that_read_data_and_nobody_else(
    tmp_path, other_data
):
    file, options = file_of(tmp_path), Options(tmp_path, processes=2, other_data=other_data)
    readers = [program for _, program in programs.nodes(file, options, None)]
    others = [
        programs.scheduler(file, None),
        *(program for _, program in programs.feeders(file, options, None)),
    ]
    (tmp_path / "star").mkdir()
    collaboration = load_collaboration(collaborations.write(tmp_path / "star"))
    learner, *owners = up_collaboration.programs(collaboration, tmp_path, None, other_data=other_data)
    assert len(owners) == 3
    assert {"--other-data" in program.arguments for program in (*readers, *owners)} == {other_data}
    assert not any("--other-data" in program.arguments for program in (*others, learner))


def test_a_node_without_its_own_part_is_not_run_and_one_without_a_path_is_not_fed(tmp_path):
    sources = {"a": "a.yaml", "b": of_file(None), "c": of_file("-"), "d": of_file("d.jsonl")}
    file = file_of(tmp_path, sources, loss="squared")
    options = Options(tmp_path)
    programs.check(file, options)
    assert [name for name, _ in programs.nodes(file, options, None)] == ["b", "c", "d"]
    assert [name for name, _ in programs.feeders(file, options, None)] == ["d"] == programs.fed_here(file)
    assert not list(programs.feeders(file, Options(tmp_path, feed=False), None))


def test_a_file_without_a_record_is_refused_before_anything_is_started(tmp_path):
    (tmp_path / "d.jsonl").write_text("")
    others = dict.fromkeys("abc", of_file(None))
    file = file_of(tmp_path, others | {"d": of_file("d.jsonl")}, loss="squared")
    with pytest.raises(MeshFileError, match=r"nodes\.d\.source\.path: .*: holds no record$"):
        programs.check(file, Options(tmp_path))
    programs.check(file, Options(tmp_path, feed=False))


@pytest.mark.parametrize(
    ("slots", "rate", "pace"),
    [
        ({"by": "count"}, None, ()),
        ({"by": "count"}, 0.1, ("--rate", "0.1")),
        (BY_TIME, None, ("--timestamps",)),
    ],
)
def test_the_pace_of_the_feeders(tmp_path, slots, rate, pace):
    tree = changed()
    tree["mesh"]["slots"] = slots
    file = loaded(tmp_path, tree)
    for _, program in programs.feeders(file, Options(tmp_path, rate), None):
        assert program.arguments[3:] == pace


def test_every_metrics_port_is_another(tmp_path):
    file = file_of(tmp_path)
    ports = programs.ports(file, Options(tmp_path, metrics_from=9100))
    assert ports.all == list(range(9100, 9113))
    assert programs.scheduler(file, ports).arguments[2:] == ("--metrics", "9100")
    nodes = dict(programs.nodes(file, Options(tmp_path), ports))
    assert nodes["b"].arguments[5:] == ("--metrics", "9103", "--private-metrics", "9104")
    feeders = dict(programs.feeders(file, Options(tmp_path), ports))
    assert feeders["b"].arguments[3:] == ("--private-metrics", "9110")
    assert programs.ports(file, Options(tmp_path, metrics_from=9100, feed=False)).all[-1] == 9108
    assert programs.ports(file, Options(tmp_path)) is None


@pytest.mark.parametrize("first", [-1, 0, 65_524])
def test_ports_that_are_none(tmp_path, first):
    with pytest.raises(UsageError, match=r"--metrics-from .*: must be from 1 to 65523"):
        programs.ports(file_of(tmp_path), Options(tmp_path, metrics_from=first))
    assert programs.ports(file_of(tmp_path), Options(tmp_path, metrics_from=65_523)) is not None


def test_a_generator_without_end_needs_a_pace(tmp_path):
    file = file_of(tmp_path, rounds=None)
    with pytest.raises(
        MeshFileError, match=r"mesh\.rounds: none, and the generator of a has no end: .* or give --rate"
    ):
        programs.check(file, Options(tmp_path))
    programs.check(file, Options(tmp_path, rate=1.0))
    programs.check(file, Options(tmp_path, feed=False))
    programs.check(file_of(tmp_path, rounds=None, slots=BY_TIME), Options(tmp_path))  # fed at its own times


def test_with_slots_by_time_a_rate_is_refused_and_no_record_is_a_stream(tmp_path):
    with pytest.raises(
        MeshFileError, match=r'mesh\.slots\.by: "time": --rate goes by the place of each record'
    ):
        programs.check(file_of(tmp_path, slots=BY_TIME), Options(tmp_path, rate=1.0))
    timed = of_file("d.jsonl") | {"schema": SCHEMA | {"timestamp": "at"}}
    file = file_of(tmp_path, dict.fromkeys("abcd", timed), loss="squared", slots=BY_TIME)
    (tmp_path / "d.jsonl").write_text("")
    programs.check(file, Options(tmp_path))


def test_a_node_that_cannot_run_here_is_refused_before_anything_is_started(tmp_path):
    with pytest.raises(MeshFileError, match=r"nodes\.c\.source"):
        programs.check(file_of(tmp_path, {"c": None}), Options(tmp_path))
    tree = changed()
    tree["nodes"] = {}
    with pytest.raises(MeshFileError, match="the own part of one node at least must be here"):
        programs.check(loaded(tmp_path, tree), Options(tmp_path))
    with pytest.raises(MeshFileError, match=r"nodes\.a\.brokers: missing"):
        programs.check(loaded(tmp_path, changed()), Options(tmp_path))


def shared_out(file, processes, **options):
    return programs.hosts(file, Options(file.path.parent, processes=processes, **options))


def test_nodes_share_as_many_processes_as_are_asked_for(tmp_path):
    file = file_of(tmp_path)
    assert shared_out(file, None) == [("a",), ("b",), ("c",), ("d",)]
    assert shared_out(file, 3) == [("a",), ("b",), ("c", "d")]
    options = Options(tmp_path, metrics_from=9100, processes=2)
    ports = programs.ports(file, options)
    nodes = dict(programs.nodes(file, options, ports))
    assert nodes["a"] == nodes["b"]
    assert nodes["c"].label == "node c and 1 more"
    metrics = ("--metrics", "9103", "--private-metrics", "9104")
    assert nodes["d"].arguments == ("node", str(file.path), "c", "d", "--state", str(tmp_path), *metrics)
    assert set(ports.shared) == {"a", "c"}


@pytest.mark.parametrize("processes", [0, 5])
def test_a_number_of_processes_that_there_cannot_be(tmp_path, processes):
    said = f"^--processes is {processes}: must be from 1 to 4, the nodes here$"
    with pytest.raises(UsageError, match=said):
        programs.check(file_of(tmp_path), Options(tmp_path, processes=processes))


def test_nodes_of_other_brokers_have_other_processes(tmp_path):
    tree = changed()
    tree["brokers"] = {"mesh": {"servers": "127.0.0.1:1"}, "data": {"servers": "127.0.0.1:2"}}
    tree["nodes"]["b"]["brokers"] = {"mesh": {"servers": "127.0.0.1:1"}, "data": {"servers": "127.0.0.1:3"}}
    file = loaded(tmp_path, tree)
    assert shared_out(file, 2) == [("a", "c", "d"), ("b",)]
    assert shared_out(file, 3) == [("a",), ("c", "d"), ("b",)]
    with pytest.raises(
        UsageError, match="from 2 to 4, the nodes here: a and b differ in brokers or private_endpoint"
    ):
        shared_out(file, 1)


def test_readers_of_one_topic_have_other_processes(tmp_path):
    tree = changed()
    tree["brokers"] = {"mesh": {"servers": "127.0.0.1:1"}, "data": {"servers": "127.0.0.1:2"}}
    schema = {"features": {"u": "number", "v": "number"}, "label": {"column": "distance"}}
    topic = {"kind": "topic", "topic": "payments", "schema": schema}
    for number, name in enumerate("ad"):
        tree["nodes"][name]["source"] = topic | {"partitions": [number]}
    elsewhere = topic | {"topic": "others", "broker": {"servers": "127.0.0.1:4"}}
    tree["nodes"]["c"]["source"] = elsewhere
    file = loaded(tmp_path, tree)
    assert shared_out(file, 3) == [("a", "b"), ("c",), ("d",)]
    with pytest.raises(UsageError, match="a and c differ in brokers or private_endpoint, or share a topic"):
        shared_out(file, 2)
    for names in shared_out(file, 3):
        check_shared(file, names)


def test_private_endpoints_count_unless_others_take_their_place(tmp_path):
    tree = changed()
    tree["brokers"] = {"mesh": {"servers": "127.0.0.1:1"}, "data": {"servers": "127.0.0.1:2"}}
    tree["nodes"]["b"]["private_endpoint"] = "127.0.0.1:9301"
    file = loaded(tmp_path, tree)
    with pytest.raises(UsageError, match="a and b differ in brokers or private_endpoint"):
        shared_out(file, 1)
    assert shared_out(file, 1, metrics_from=9100) == [("a", "b", "c", "d")]


def test_many_nodes_share_processes_unless_it_is_said_otherwise(tmp_path, monkeypatch):
    names = [f"n{k}" for k in range(9)]
    tree = changed(nodes=names)
    tree["nodes"] = {name: {"source": {"kind": "localisation"}} for name in names}
    tree["brokers"] = {"mesh": {"servers": "127.0.0.1:1"}, "data": {"servers": "127.0.0.1:2"}}
    file = loaded(tmp_path, tree)
    for processors, processes in [(1, 2), (4, 4), (16, 9)]:
        monkeypatch.setattr("os.cpu_count", lambda found=processors: found)
        assert len(shared_out(file, None)) == processes
    assert len(shared_out(file, 9)) == 9


# Where `up` keeps a mesh: in one folder for all of its runs.


def test_all_runs_of_a_mesh_are_kept_in_one_folder(tmp_path):
    (tmp_path / PARENT / "tracking.run-1").mkdir(parents=True)
    parents = (tmp_path / PARENT, PARENT)
    for parent in parents:
        for run in ("run-1", "run-2"):
            assert default_folder(loaded(tmp_path, changed(run=run)), parent) == parent / "tracking"


# `up --replay`: a mesh file whose slots begin soon, and the times of all records moved by one number.

START = 1_700_000_000.25
NOW = START + 100_000.5
SHIFT = 100_013.0
"""Whole seconds, so that slots keep their place within a second, and 12.25 at least after NOW."""
FILE = {"kind": "json-lines", "path": "records/${WHERE}/a.jsonl", "schema": SCHEMA | {"timestamp": "at"}}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(programs, "lead", lambda _: 12.25)  # the machine's own differs


@pytest.fixture
def state(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def timed(tmp_path, monkeypatch):
    """A mesh whose files stand in every place that a mesh file can name."""
    monkeypatch.setenv("WHERE", "here")
    monkeypatch.setenv("PASSWORD", "hidden")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "schema.yaml").write_text(yaml.safe_dump(FILE["schema"]))
    (tmp_path / "parts" / "b.yaml").write_text(
        yaml.safe_dump({"source": FILE | {"path": "b.jsonl", "schema": "schema.yaml"}})
    )
    tree = changed(nodes=["a", "b"], loss="squared")
    tree["mesh"]["slots"] = {"by": "time", "start": START, "period": 1, "size": 3}
    tree["mesh"]["algorithm"]["x_1"] = [0.1, 0.2]
    tree["nodes"] = {"a": {"source": FILE}, "b": "parts/b.yaml"}
    tree["held_out"] = FILE | {"path": "held.jsonl", "schema": "parts/schema.yaml"}
    broker = {"servers": "127.0.0.1:1", "username": "me", "password": "${PASSWORD}"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    return load(written(tmp_path, tree))


def absolute(file, own):
    return own.model_copy(update={"source": own.source.model_copy(update={"path": file})})


def test_the_replay_is_the_same_mesh_from_now_on(timed, state, tmp_path):
    file = replayed(timed, state, NOW)
    assert file.path == state / "replay.yaml"
    assert file.mesh.shift == SHIFT
    slots = timed.mesh.slots.model_copy(update={"start": START + file.mesh.shift, "shift": file.mesh.shift})
    assert file.mesh == timed.mesh.model_copy(update={"slots": slots})
    assert file.brokers("a") == timed.brokers("a")
    assert file.nodes["a"] == absolute(str(tmp_path / "records/here/a.jsonl"), timed.nodes["a"])
    assert file.nodes["b"] == absolute(str(tmp_path / "parts/b.jsonl"), timed.nodes["b"])
    assert file.held_out.path == str(tmp_path / "held.jsonl")
    assert file.held_out.record == timed.held_out.record
    assert "hidden" not in file.path.read_text()
    assert file.path.stat().st_mode & 0o077 == 0


def test_every_source_moves_times_by_the_same_number_and_the_guarantee_names_it(timed, state, tmp_path):
    (tmp_path / "records/here").mkdir(parents=True)
    (tmp_path / "records/here/a.jsonl").write_text(json.dumps({"x": 1, "y": 1, "distance": 1, "at": START}))
    file = replayed(timed, state, NOW)
    assert next(open_source(file, "a", 0).records).timestamp == START + SHIFT
    found = opened(file, "a", FeedOptions(timestamps=True))
    assert (next(found.source.records).timestamp, found.shift) == (START + SHIFT, SHIFT)
    with pytest.raises(MeshFileError, match=r"mesh\.slots\.shift: 100013\.0: the mesh file moves all "):
        opened(file, "a", FeedOptions(shift=1.0))
    again = replayed(file, tmp_path, NOW + 500)  # of the replay itself
    assert (again.mesh.slots.start, again.mesh.shift) == (START + SHIFT + 500, SHIFT + 500)
    settings = file.mesh.privacy.model_copy(update={"noise": "exact"})
    exact = replace(file, mesh=file.mesh.model_copy(update={"privacy": settings}))
    said = exact.resolved.node("a").guarantee.sentence("a")
    assert "the time of every record is moved by the same 100,013 s, which are public;" in said


def test_a_generators_times_follow_the_start_by_themselves(state, tmp_path):
    tree = changed()
    tree["mesh"]["slots"] = {"by": "time", "start": START, "period": 1}
    file = replayed(loaded(tmp_path, tree), state, NOW)
    assert next(open_source(file, "a", 0).records).timestamp == START + SHIFT + 0.5
    assert opened(file, "a", FeedOptions()).shift == 0


def test_a_replay_goes_on_with_its_own_start_until_it_has_ended_unbegun(timed, state):
    first = replayed(timed, state, NOW)
    again = replayed(timed, state, NOW + 5)
    assert (again.mesh.shift, again.mesh.slots) == (first.mesh.shift, first.mesh.slots)
    assert replayed(timed, state, NOW + 500, lambda _: []).mesh.shift == SHIFT + 500


def test_a_replay_is_not_written_over_the_file_that_it_is_made_of(timed, state):
    first = replayed(timed, state, NOW)
    before = first.path.read_bytes()
    with pytest.raises(UsageError, match=r"would be written over .*replay\.yaml: must be another folder"):
        replayed(first, state, NOW + 500)
    assert first.path.read_bytes() == before


def test_a_replay_that_was_fed_and_has_ended_unbegun_keeps_its_times(timed, state):
    """Its topics take no record with another time: a second one would only fail later, feeder by feeder."""
    written = replayed(timed, state, NOW).path.read_text()
    words = (
        r"state ended before its first step, and its times are in data\.b: delete what is there, or give an"
    )
    with pytest.raises(MeshFileError, match=words):
        replayed(timed, state, NOW + 500, lambda _: ["data.b"])
    assert (state / "replay.yaml").read_text() == written
    assert replayed(timed, state, NOW + 5, lambda _: ["data.b"]).mesh.shift == SHIFT


def test_a_start_takes_longer_with_more_nodes(timed, tmp_path, monkeypatch):
    monkeypatch.undo()
    many = loaded(tmp_path, changed(nodes=["a", "b", "c", "d"]))
    assert programs.LEAD < programs.lead(timed) < programs.lead(many)


def test_a_replay_that_has_begun_is_never_moved(timed, state):
    first = replayed(timed, state, NOW)
    journal(state, first, "a", record(1))
    assert replayed(timed, state, NOW + 500).mesh.shift == first.mesh.shift


def test_another_runs_replay_is_in_the_topics(timed, state):
    first = replayed(timed, state, NOW)
    other = replace(timed, mesh=timed.mesh.model_copy(update={"run": "run-2"}))
    journal(state, first, "a", record(1))
    with pytest.raises(
        MeshFileError, match=r"mesh\.run: \"run-2\": .* holds a replay of run run-1: .* may not count"
    ):
        replayed(other, state, NOW + 500)
    assert load(state / "replay.yaml").mesh.run == "run-1"


def test_a_replay_needs_times_and_all_nodes(timed, tmp_path):
    check_replay(timed)
    with pytest.raises(MeshFileError, match=r"mesh\.slots\.by: \"count\": --replay moves times: must be"):
        check_replay(loaded(tmp_path, changed()))
    tree = with_value(changed(), "nodes.c", "elsewhere.yaml")
    tree["mesh"]["slots"] = {"by": "time", "start": START, "period": 1}
    with pytest.raises(MeshFileError, match="nodes: the own part of c is missing: with --replay one party"):
        check_replay(loaded(tmp_path, tree))


def test_words_that_look_like_numbers_stay_words(state, tmp_path):
    tree = changed(nodes=["a"], loss="hinge", topology={"graph": "complete"}, dimension=2)
    tree["mesh"]["slots"] = {"by": "time", "start": START, "period": 1}
    words = ["1e-3", "on", "007", 'a "b": #c', "\u00e9\U0001f600"]
    schema = {
        "features": {"1e-3": "number", "null": "number"},
        "label": {"column": "yes", "positive": words},
        "timestamp": "at",
    }
    tree["nodes"] = {"a": {"source": {"kind": "json-lines", "path": "a", "schema": schema}}}
    (tmp_path / "mesh.yaml").write_text(json.dumps(tree, ensure_ascii=False))
    file = load(tmp_path / "mesh.yaml")
    assert replayed(file, state, NOW).nodes["a"].source.record == file.nodes["a"].source.record
