"""Labels that come later, in a file: which of them counts, and what is wrong with the file."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from nodes.machine.events import OpenSlot
from nodes.machine.slots import ClosedSlot
from nodes.privacy.reveal import opened
from streams.cli.check import unreadable
from streams.cli.command_line import app
from streams.ledger import promises_of
from streams.live.data.labels import LaterLabels
from streams.local.run import mesh_parts
from streams.mesh.errors import MeshFileError
from streams.records.observed import observed
from streams.records.slot_feed import DataLog, SlotFeed
from streams.records.sources import held_out, open_source
from streams.terminal.plan_text import facts
from tests.support.meshes.files import changed, loaded

SCHEMA = {
    "features": {"x": "number", "y": "number"},
    "label": {"column": "outcome", "positive": "fraud", "negative": "fine"},
    "timestamp": "at",
}
LABELS = {"join": "id", "after": "45s", "came": "reported", "value": {"column": "what"}, "otherwise": "fine"}
BY_TIME = {"by": "time", "period": 10, "start": 0, "size": 10}
RECORDS = [("p", 100), ("q", 101), ("p", 140), ("r", 150)]
CAME = [("p", 90, "fraud"), ("p", 120, "fraud"), ("p", 170, "fine"), ("q", 147, "fraud"), ("s", 1, "fraud")]
ROW = {"by": "count", "size": 1}


def text(columns, rows):
    """The lines of a CSV file."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerows([columns, *rows])
    return lines.getvalue()


def mesh(
    folder,
    records=RECORDS,
    came=CAME,
    labels=None,
    *,
    schema=SCHEMA,
    held=False,
    brokers=False,
    slots=ROW,
    **source,
):
    """The file of a mesh of two nodes, of which a has labels in a file, of records (id, time)."""
    folder = Path(folder)
    rows = [(key, at, 0.1 * k, 0.0) for k, (key, at) in enumerate(records)]
    (folder / "records.csv").write_text(text(("id", "at", "x", "y"), rows))
    (folder / "others.csv").write_text(text(("outcome", "at", "x", "y"), [("fine", 100, 0, 0)]))
    (folder / "labels.csv").write_text(text(("id", "reported", "what"), came))
    later = {"path": "labels.csv"} | LABELS | (labels or {})
    later = {key: value for key, value in later.items() if value is not None}
    own = {"kind": "csv", "path": "records.csv", "schema": schema, "labels": later} | source
    own = {key: value for key, value in own.items() if value is not ...}
    tree = changed(
        nodes=["a", "b"],
        loss="hinge",
        topology={"graph": "complete"},
        privacy={"noise": "exact"},
        slots=slots,
        rounds=30,
    )
    tree["nodes"] = {
        "a": {"source": own},
        "b": {"source": {"kind": "csv", "path": "others.csv", "schema": SCHEMA}},
    }
    tree |= {"held_out": own} if held else {}
    broker = {"servers": "127.0.0.1:1"}
    tree |= {"brokers": {"mesh": broker, "data": broker, "trust_broker": True}} if brokers else {}
    return loaded(folder, tree)


def labels_of(file):
    """The labels of a's records, in order, 1 for fraud; None for one that cannot be read."""
    source = open_source(file, "a", 0)
    pairs = map(source.decoder.decode, (record.value for record in source.records))
    return [None if pair is None else pair[1] for pair in pairs], source.decoder.label_counts


def test_the_newest_label_counts_that_came_by_the_moment_when_the_record_was_due(tmp_path):
    labels, counts = labels_of(mesh(tmp_path))
    assert labels == [1, -1, -1, -1]  # p at 140 was due at 185, so it has what came at 170; q's came too late
    assert counts == (5, 0, 2, 3)  # p at 170 and q: too late; p at 90, q, s: without a record


def test_a_label_older_than_its_record_counts_up_to_before(tmp_path):
    came = [("p", 95, "fraud")]
    assert labels_of(mesh(tmp_path, [("p", 100)], came))[0] == [-1]
    assert labels_of(mesh(tmp_path, [("p", 100)], came, {"before": "4s"}))[0] == [-1]
    assert labels_of(mesh(tmp_path, [("p", 100)], came, {"before": "5s"}))[0] == [1]


def test_without_times_of_labels_all_count_and_the_last_is_the_newest(tmp_path):
    file = mesh(tmp_path, labels={"came": None})
    labels, counts = labels_of(file)
    assert labels == [-1, 1, -1, -1]  # p's last one takes the first back
    assert counts == (5, 0, 0, 1)
    plan = "\n".join(f"{key} {fact}" for key, fact in facts(file, None, 0.0))
    assert "labels a: in labels.csv, by id, whenever they came" in plan
    assert "no replay of a live run" in plan


def test_the_owner_is_told_what_counts_and_what_is_protected(tmp_path):
    file = mesh(tmp_path)
    plan = "\n".join(f"{key} {fact}" for key, fact in facts(file, None, 0.0))
    assert "labels a: in labels.csv, by id, up to 45 seconds after a record" in plan
    assert "no replay" not in plan
    sentence = promises_of(file)["a"].sentence
    assert "together with its labels is protected" in sentence
    assert "a record has its labels in labels.csv, up to 45 seconds after its time" in sentence


def test_a_record_without_a_time_is_unreadable_where_labels_have_times(tmp_path):
    file = mesh(tmp_path, [("p", 100), ("p", "soon")])
    assert labels_of(file)[0] == [1, None]
    source = open_source(file, "a", 0)
    faults = [source.decoder.fault(record.value) for record in source.records]
    assert faults[1].column == "at"
    assert labels_of(mesh(tmp_path, [("p", "soon")], labels={"came": None}))[0] == [-1]


def test_labels_that_cannot_be_read_are_none_and_counted(tmp_path):
    came = [("p", 120, "fraud"), ("p", 121, "perhaps"), ("p", "never", "fine"), ("", 122, "fine")]
    labels, counts = labels_of(mesh(tmp_path, [("p", 100)], came))
    assert labels == [1]
    assert counts == (1, 3, 0, 0)


def test_slots_by_time_have_a_record_after_its_wait(tmp_path):
    file = mesh(tmp_path, slots=BY_TIME)
    source = open_source(file, "a", 0)
    assert [record.timestamp for record in source.records] == [145, 146, 185, 195]
    part = mesh_parts(file).nodes["a"]
    feed, position, slots = SlotFeed(DataLog(iter(part.records)), part.slots, part.decoder), (), []
    for round in range(1, 21):
        closed = feed.close(OpenSlot(round, position))
        position = closed.position
        slots.append(opened(closed.observations).labels.tolist())
    assert {round: labels for round, labels in enumerate(slots, 1) if labels} == {
        15: [1, -1],
        19: [-1],
        20: [-1],
    }


def test_held_out_records_may_have_labels_in_a_file(tmp_path):
    _, labels = held_out(mesh(tmp_path, held=True))
    assert labels.tolist() == [1, -1, -1, -1]


def test_json_lines_have_labels_in_json_lines(tmp_path):
    file = mesh(tmp_path, [], [], kind="json-lines")
    Path(tmp_path / "records.csv").write_text('{"x": 1, "y": 2, "id": 7, "at": 100}\n')
    Path(tmp_path / "labels.csv").write_text(
        '{"id": 7.0, "what": "fraud", "reported": 110}\n{"id": 7, "reported": 111}\n[1]\n'
    )
    labels, counts = labels_of(file)
    assert (labels, counts) == ([1], (1, 2, 0, 0))


def test_many_records_at_once_have_the_labels_of_each_alone(tmp_path):
    records = [("p", 100 + k) for k in range(50)]
    file = mesh(tmp_path, records)
    source = open_source(file, "a", 0)
    values = [record.value for record in source.records]
    assert [pair[1] for pair in source.decoder.decode_each(values)] == labels_of(file)[0]


IDS = st.sampled_from("pqr")


@given(
    st.lists(st.tuples(IDS, st.integers(0, 200)), min_size=1, max_size=12),
    st.lists(st.tuples(IDS, st.integers(0, 260), st.sampled_from(["fraud", "fine"])), max_size=20),
    st.integers(1, 80),
    st.integers(0, 30),
)
def test_the_rule_is_that_of_a_search_through_all_labels(tmp_path_factory, records, came, after, before):
    expected, late = [], set()
    for key, at in records:
        within = [
            (t, k, what)
            for k, (of, t, what) in enumerate(came)
            if of == key and at - before <= t <= at + after
        ]
        expected.append(1 if within and max(within)[2] == "fraud" else -1)
        late |= {k for k, (of, t, _) in enumerate(came) if of == key and t > at + after}
    used = {
        k
        for k, (of, t, _) in enumerate(came)
        if any(key == of and at - before <= t <= at + after for key, at in records)
    }
    ages = {"after": f"{after}s", "before": f"{before}s" if before else 0}
    labels, counts = labels_of(mesh(tmp_path_factory.mktemp("mesh"), records, came, ages))
    assert labels == expected
    assert counts == (len(came), 0, len(late), len(came) - len(used))


class Message:
    """A label's message on a topic."""

    def __init__(self, key, at, what):
        self._key, self._at, self._what = key, at, what

    def key(self):
        return self._key.encode()

    def value(self):
        return json.dumps({"what": self._what}).encode()

    def timestamp(self):
        return 1, self._at * 1000


@given(
    st.lists(st.tuples(IDS, st.integers(0, 200)), min_size=1, max_size=12),
    st.lists(st.tuples(IDS, st.integers(0, 260), st.sampled_from(["fraud", "fine"])), max_size=20),
)
def test_the_rule_is_that_of_labels_on_a_topic(tmp_path_factory, records, came):
    file = mesh(tmp_path_factory.mktemp("mesh"), records, came, {"before": "9s"})
    on_topic = {"topic": "t", "came": None, "path": None}
    settings = file.own("a").source.labels.model_copy(update=on_topic)
    decoder = open_source(file, "a", 0).decoder
    live = LaterLabels(settings, None, decoder, None)
    for label in came:
        live._add(Message(*label), 0)
    values = tuple(record.value for record in open_source(file, "a", 0).records)
    times = tuple(float(at) for _, at in records)
    slot = live.fill(ClosedSlot(1, values, (), times=times), observed(values, decoder))
    assert slot.labels.tolist() == labels_of(file)[0]


UNTIMED = {key: value for key, value in SCHEMA.items() if key != "timestamp"}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"labels": {"topic": "t"}}, "nodes.a.source.labels: "),
        ({"labels": {"path": None}}, "nodes.a.source.labels: "),
        ({"labels": {"path": "-"}}, 'nodes.a.source.labels.path: "-": must be the path of a file'),
        ({"schema": UNTIMED}, "nodes.a.source.labels.came: "),
        ({"labels": {"came": None, "before": "1d"}}, 'nodes.a.source.labels.before: "1d": goes with came'),
        ({"labels": {"path": None, "topic": "t"}}, "nodes.a.source.labels.came: "),
        ({"path": ...}, "nodes.a.source.labels.path: "),
        ({"kind": "topic", "path": ..., "topic": "t"}, 'nodes.a.source.labels.path: "'),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, changes, line):
    with pytest.raises(MeshFileError) as error:
        mesh(tmp_path, **changes)
    (refusal,) = error.value.lines
    assert refusal.partition(": ")[2].startswith(line)


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        ({"path": "none.csv"}, "nodes.a.source.labels.path: "),
        ({"came": "when"}, 'nodes.a.source.labels.came: "when": not in the header of '),
        ({"value": {"column": "w"}}, 'nodes.a.source.labels.value.column: "w": not in the header of '),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path, labels, line):
    file = mesh(tmp_path, labels=labels)
    with pytest.raises(MeshFileError) as error:
        mesh_parts(file)
    (refusal,) = error.value.lines
    assert refusal.partition(": ")[2].startswith(line)
    assert unreadable(file) == [refusal]


def test_a_join_column_that_labels_do_not_have_is_named(tmp_path):
    file = mesh(tmp_path)
    (tmp_path / "labels.csv").write_text("other,reported,what\np,1,fraud\n")
    with pytest.raises(MeshFileError, match=r'nodes.a.source.labels.join: "id": not in the header'):
        mesh_parts(file)


def test_check_names_a_file_without_a_label_that_can_be_read(tmp_path):
    (line,) = unreadable(mesh(tmp_path, came=[("p", "soon", "fraud")] * 3))
    assert "nodes.a.source.labels.path" in line
    assert "holds no label that can be read, of 3" in line


@pytest.mark.parametrize("command", [("feed", "a"), ("node", "a", "--state", "state"), ("up",)])
def test_where_records_go_by_a_broker_a_file_of_labels_is_refused(tmp_path, monkeypatch, command):
    mesh(tmp_path, brokers=True)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [command[0], str(tmp_path / "mesh.yaml"), *command[1:]])
    with pytest.raises(MeshFileError) as error:
        raise result.exception
    (line,) = error.value.lines
    assert "nodes.a.source.labels.path: " in line
    assert line.endswith("a file of labels is read by run alone: must be a topic")


def test_other_records_of_a_source_have_labels_of_their_own(tmp_path):
    source = mesh(tmp_path).own("a").source
    others = source.of_others("elsewhere.csv")
    assert (others.path, others.labels, others.record.joined) == ("elsewhere.csv", None, None)
    assert source.record.joined == "id"


def test_run_tells_the_owner_the_counts(tmp_path):
    mesh(tmp_path)
    result = CliRunner().invoke(app, ["run", str(tmp_path / "mesh.yaml")])
    assert result.exit_code == 0, result.output
    assert "a 5 came, 0 unreadable, " in result.output.replace("\n", " ")
