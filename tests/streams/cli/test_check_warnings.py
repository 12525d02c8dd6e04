"""`check` warns of what is allowed but hardly meant: each warning fires once, and once stays silent."""

import gzip
import os

import pytest
import yaml

from streams.mesh.file import KINDS, NODES, load
from streams.mesh.shipped import examples
from streams.records import lint as looked_at
from streams.records.lint import findings
from tests.streams.cli.test_kinds import PARAMETERS, line_of
from tests.support.collaborations.files import collaboration_file

LABEL = "{column: y, positive: [ok], negative: [bad]}"
SCHEMA = f"{{features: {{x: number, c: {{categories: [red, blue]}}}}, label: {LABEL}}}"
SCHEMA_OF_A = "nodes.a.source.schema"
REPORTED = {"check", "plan", "run"}
"""Commands whose report on standard output has what settings alone tell."""
ENDED = {
    "node": ("a",),
    "simulate": ("--histories", "1"),
    "up": ("--state", "mesh.yaml"),
    "watch": ("--once",),
    "run": ("--rounds", "1"),
    "audit mechanism": ("x",),
}
"""What else a command is given, so that it ends soon."""
ROW, OTHER = "1,red,ok\n", "2,blue,bad\n"
GOOD = (ROW + OTHER) * 60


@pytest.fixture
def checked(call, mesh, tmp_path):
    """Check a mesh whose node a reads `name`, with these rows below the header; return its warnings.

    The mesh has dimension 3, a hinge loss, and nodes a, b and c; b and c are elsewhere. `more` replaces text.
    """
    text = mesh.read_text().replace("dimension: 2", "dimension: 3").replace("loss: range", "loss: hinge")
    text = text[: text.index("nodes:\n")]

    def check(rows=None, *more, name="a.csv", extra="", shared=""):
        source = f"{{kind: csv, path: {name}, schema: {SCHEMA}{extra}}}"
        own = f"nodes:\n  a: {{source: {source}}}\n  b: b.yaml\n  c: c.yaml\n{shared}"
        written = text + own
        for old, new in more:
            assert old in written
            written = written.replace(old, new)
        mesh.write_text(written)
        if rows is not None:
            content = f"x,c,y\n{rows}".encode()
            (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        outcome = call("check", mesh)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out.startswith(f"{mesh}: right\n")
        found = [line for line in outcome.out.splitlines() if "warning" in line.lower()]
        return [line.removeprefix("Warning: ").replace(f"{tmp_path}/", "") for line in found]

    return check


def test_a_file_as_it_is_meant_gets_no_warning(checked):
    assert checked(GOOD) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROW * 7, ['features.c: "blue" never occurs in', 'label: "bad" never occurs in']),
        ("1,red,bad\n2,green,bad\n3,blue,bad\n" * 2, ['label: "ok" never occurs in']),
        ("1,pink,ok\n2,green,bad\n" * 3, ['features.c: "red", "blue" never occur in']),
    ],
)
def test_a_listed_word_that_never_occurs(checked, rows, said):
    records = f"the {rows.count(chr(10))} records of a.csv"
    assert checked(rows) == [f"{SCHEMA_OF_A}.{one} {records}" for one in said]


def test_a_class_that_never_occurs(checked):
    classes = ("positive: [ok], negative: [bad]", "classes: [ok, bad, odd]")
    softmax = (("loss: hinge", "loss: {softmax: 3}"), ("dimension: 3", "dimension: 9"), classes)
    said = f'{SCHEMA_OF_A}.label: "odd" never occurs in the 120 records of a.csv'
    assert checked(GOOD, *softmax) == [said]
    assert checked(GOOD + "1,red,odd\n", *softmax) == []


def test_words_that_differ_by_case_alone_name_the_listed_one(checked):
    found = checked(GOOD + "1,RED,ok\n")
    assert found == [
        f'{SCHEMA_OF_A}.features.c: 1 of the 121 records of a.csv differs from "red" by case alone'
    ]
    assert checked(GOOD + "1,reddish,ok\n") == []
    found = checked(GOOD + "1,red,Ok\n" * 200)
    assert f'{SCHEMA_OF_A}.label: 200 of the 320 records of a.csv differ from "ok" by case alone' in found
    assert not any(word in line for line in found for word in ("RED", "Ok"))


def test_two_listed_words_may_differ_by_case_alone(checked):
    assert checked(GOOD, ("[red, blue]", "[red, Red, blue]"), ("dimension: 3", "dimension: 4")) == [
        f'{SCHEMA_OF_A}.features.c: "Red" never occurs in the 120 records of a.csv'
    ]
    rows = GOOD + "1,Red,ok\n"
    assert checked(rows, ("[red, blue]", "[red, Red, blue]"), ("dimension: 3", "dimension: 4")) == []


def test_malformed_records_are_counted_by_column_and_kind(checked):
    found = checked(GOOD + "?,red,ok\n" * 3 + "1,red,so\n")
    why = "x: not a number (3), y: not one of bad, ok (1)"
    assert found == [f"nodes.a.source: 4 of the 124 records of a.csv are malformed: {why}"]
    assert checked(GOOD + "?,red,ok\n") == []  # below one in a hundred


def test_a_record_without_a_time_is_malformed_where_slots_go_by_time(checked):
    timed = (
        ("{by: count, size: 1}", "{by: time, period: 1, start: 0, size: 50}"),
        ("{x: number", "{x: number, at: number"),
    )
    schema = ("positive: [ok], negative: [bad]}", "positive: [ok], negative: [bad]}, timestamp: x")
    found = checked(GOOD + "1,red,ok\n" * 3, timed[0], schema)
    assert found == []
    mixed = GOOD.replace("1,red", "2026-01-31T12:00:00,red", 2)
    number = ("{x: number,", "{x: {weekday: UTC},"), ("dimension: 3", "dimension: 9")
    assert checked(mixed, timed[0], schema, *number) == [
        "nodes.a.source: 2 of the 120 records of a.csv are malformed: x: a time without a zone (2)"
    ]


TIMED = ("{by: count, size: 1}", "{by: time, period: 60, start: 1700000000, size: 4}")


@pytest.mark.parametrize(
    ("first", "unit", "meant"),
    [
        ("1700000001", "s", None),
        ("1700000001000", "s", "milliseconds since 1970: say timestamp: {column: at, unit: ms}"),
        ("1700000001000000", "s", "microseconds since 1970: say timestamp: {column: at, unit: us}"),
        ("1700000001000000000", "s", "nanoseconds since 1970: say timestamp: {column: at, unit: ns}"),
        ("1700000001000", "ms", None),
        ("1700000001", "ms", "seconds since 1970: say timestamp: {column: at, unit: s}"),
        ("2023-11-14T22:13:21Z", "s", None),
        ("2023-11-14T22:13:21Z", "ms", None),
        ("17", "s", ""),
    ],
)
def test_times_in_another_unit(checked, first, unit, meant):
    """Found, named, and never guessed."""
    columns = (("path: a.csv", "path: a.csv, columns: [x, c, y, at]"), TIMED)
    stamp = (LABEL, f"{LABEL}, timestamp: {{column: at, unit: {unit}}}")
    rows = "".join(f"{row},{first}\n" for row in GOOD.splitlines())
    warnings = checked(rows, *columns, stamp)
    none = ["nodes.a.source: none of the 121 records of a.csv lies in a slot, by its time"]
    named = [] if not meant else [f"{SCHEMA_OF_A}.timestamp: the numbers look like {meant}"]
    assert warnings == ([] if meant is None else none + named)


def test_the_number_of_records_is_said_and_no_more_are_looked_at(checked, monkeypatch):
    monkeypatch.setattr(looked_at, "MOST", 100)
    assert checked(ROW * 100 + OTHER) == [
        f'{SCHEMA_OF_A}.features.c: "blue" never occurs in the first 100 records of a.csv',
        f'{SCHEMA_OF_A}.label: "bad" never occurs in the first 100 records of a.csv',
    ]
    assert checked(ROW * 99 + OTHER + ROW) == []


def test_a_slot_larger_than_the_file(checked):
    size = ("size: 1}", "size: 121}")
    said = "mesh.slots.size: 121 is more than the records that a takes of a.csv ({}): they fill no slot"
    assert checked(GOOD, size) == [said.format(120)]
    assert checked(GOOD + ROW, size) == []
    assert checked(GOOD * 3, size, extra=", take: {every: 3}") == [said.format(120)]
    assert checked(GOOD * 3 + ROW, size, extra=", take: {every: 3}") == []


def test_a_large_slot_is_held_against_more_records_than_are_looked_at(checked, monkeypatch):
    monkeypatch.setattr(looked_at, "MOST", 100)
    assert checked(GOOD, ("size: 1}", "size: 120}")) == []
    assert len(checked(GOOD, ("size: 1}", "size: 121}"))) == 1


def test_held_out_records_that_a_node_learns_from(checked, tmp_path):
    held_out = f"held_out: {{kind: csv, path: NAME, schema: {SCHEMA}}}\n"
    said = "held_out: may hold records that a learns from (one file, or equal ones): scores look too good"
    (tmp_path / "test.csv").write_text("x,c,y\n" + OTHER + ROW)
    assert checked(GOOD, shared=held_out.replace("NAME", "a.csv")) == [said]
    assert checked(GOOD, shared=held_out.replace("NAME", "test.csv")) == []
    apart = held_out.replace("NAME", "a.csv").replace(SCHEMA, f"{SCHEMA}, take: {{every: 2, offset: 1}}")
    assert checked(GOOD, extra=", take: {every: 2}", shared=apart) == []
    (tmp_path / "test.csv").write_text(f"x,c,y\n{GOOD}")
    assert checked(shared=held_out.replace("NAME", "test.csv")) == [said]


def test_held_out_records_are_looked_at_too_but_need_not_have_every_category(checked, tmp_path):
    (tmp_path / "test.csv").write_text("x,c,y\n" + ROW + "?,red,bad\n")
    held_out = f"held_out: {{kind: csv, path: test.csv, schema: {SCHEMA}}}\n"
    why = "x: not a number (1)"
    assert checked(GOOD, shared=held_out) == [f"held_out: 1 of the 2 records of test.csv is malformed: {why}"]
    (tmp_path / "test.csv").write_text("x,c,y\n" + ROW)
    said = 'held_out.schema.label: "bad" never occurs in the 1 record of test.csv'
    assert checked(GOOD, shared=held_out) == [said]


def test_a_graph_that_is_not_connected_over_the_horizon(checked):
    ring, said = "{graph: ring}", "mesh.topology: not connected over {} rounds, the horizon: "
    more = "what some nodes learn does not reach all others"
    assert checked(GOOD, (ring, "{graph: {edges: [[a, b]]}}")) == [said.format(32) + more]
    assert checked(GOOD, (ring, "{graph: {edges: [[a, b], [b, c]]}}")) == []
    first, second = "{edges: [[a, b]]}", "{edges: [[b, c]]}"
    assert checked(GOOD, (ring, f"{{cycle: [{first}, {second}]}}")) == []
    turns = f"{{cycle: [{first}, {first}, {first}, {first}, {second}]}}"
    assert checked(GOOD, (ring, f"{turns}\n  horizon: 4")) == [said.format(4) + more]
    assert checked(GOOD, (ring, f"{turns}\n  horizon: 5")) == []
    assert checked(GOOD, (ring, "{graph: ring, switching: 0.000001}")) == [said.format(32) + more]
    assert checked(GOOD, (ring, "{graph: ring, switching: 0.5}")) == []


@pytest.mark.parametrize("kind", [lazy.kind for lazy in KINDS], ids=lambda kind: kind.words)
@pytest.mark.parametrize("words", PARAMETERS)
def test_every_command_that_takes_a_mesh_file_says_what_its_settings_alone_tell(
    call, mesh, tmp_path, kind, words
):
    """On standard error, in its log there, or in its report on standard output; once.

    The file names no broker, and most arguments are wrong, so most commands end before they do anything.
    """
    if kind is NODES:
        line = "mesh.topology: not connected over 32 rounds, the horizon: what some nodes learn does not"
        mesh.write_text(mesh.read_text().replace("{graph: ring}", "{graph: {edges: [[a, b]]}}"))
    else:
        line = "mesh.owners.bank-b.delta: 0.05 times 40 records is 2: a mechanism that publishes"
        owners = {"bank-a": {"records": 60, "epsilon": 1}, "bank-c": {"records": 25, "epsilon": 2}}
        owners["bank-b"] = {"records": 40, "epsilon": 10, "mechanism": "gaussian", "delta": 0.05}
        tree = yaml.safe_load(collaboration_file(tmp_path, "127.0.0.1:1", owners=owners).read_text())
        mesh.write_text(yaml.safe_dump(tree | {"brokers": None}))
    outcome = call(*line_of(words), *ENDED.get(words, ()))
    shown = " ".join((outcome.out if words in REPORTED else outcome.err).split())
    assert shown.count(line) == (words in kind.commands), outcome
    assert words in REPORTED or line not in outcome.out


def test_what_settings_alone_tell_is_said_by_other_commands_too(call, mesh):
    line = "mesh.topology: not connected over 32 rounds, the horizon: what some nodes learn does not reach"
    mesh.write_text(mesh.read_text().replace("{graph: ring}", "{graph: {edges: [[a, b]]}}"))
    for command in (["run", mesh, "--rounds", "1"], ["plan", mesh]):
        outcome = call(*command)
        assert " ".join(outcome.out.split()).count(line) == 1, outcome
    assert line not in call("run", mesh, "--rounds", "1", "--quiet").out


def test_sparse_labels(call, mesh, tmp_path):
    text = mesh.read_text().replace("loss: range", "loss: hinge")
    source = "{kind: libsvm, path: a.txt, label: {positive: 2, negative: [7, 8]}}"
    mesh.write_text(
        text[: text.index("nodes:\n")] + f"nodes:\n  a: {{source: {source}}}\n  b: b.yaml\n  c: c.yaml\n"
    )
    (tmp_path / "a.txt").write_text("2 1:1\n7 2:1\n")
    assert f'nodes.a.source.label: "8" never occurs in the 2 records of {tmp_path}' in call("check", mesh).out
    (tmp_path / "a.txt").write_text("2 1:1\n7.0 2:1\n8 1:1\n")
    assert "Warning" not in call("check", mesh).out


def test_nodes_that_share_a_file_get_one_warning(call, mesh, tmp_path):
    text = mesh.read_text().replace("dimension: 2", "dimension: 3").replace("loss: range", "loss: hinge")
    source = f"kind: csv, path: a.csv, schema: {SCHEMA}"
    nodes = [
        f"  {name}: {{source: {{{source}, take: {{every: 3, offset: {k}}}}}}}\n"
        for k, name in enumerate("abc")
    ]
    mesh.write_text(
        text[: text.index("nodes:\n")].replace("size: 1}", "size: 3}") + "nodes:\n" + "".join(nodes)
    )
    (tmp_path / "a.csv").write_text("x,c,y\n" + ROW * 7)
    lines = [line for line in call("check", mesh).out.splitlines() if line.startswith("Warning")]
    assert [line.partition(": ")[2].partition(":")[0] for line in lines] == [
        "nodes.a.source.schema.features.c",
        "nodes.a.source.schema.label",
        "mesh.slots.size",
    ]
    assert "that b, c take of" in lines[-1]
    assert "(2 at most)" in lines[-1]


def test_a_file_that_is_cut_off_within_the_records_that_are_read(call, checked, mesh, tmp_path):
    numbers = "".join(f"{k * 7919 % 10007},red,ok\n{k},blue,bad\n" for k in range(4_000))
    assert checked(numbers, name="a.csv.gz") == []
    whole = (tmp_path / "a.csv.gz").read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    outcome = call("check", mesh)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"{mesh}: nodes.a.source.path: ")
    assert outcome.err.endswith('a.csv.gz": cannot be read: it is damaged\n')  # a long path has a gap
    assert outcome.err.count("\n") == 1


def test_standard_input_is_not_read_and_a_pipe_not_opened(call, checked, mesh, tmp_path):
    assert checked(name="-", extra=", columns: [x, c, y]") == []
    checked(GOOD)
    (tmp_path / "a.csv").unlink()
    os.mkfifo(tmp_path / "a.csv")
    assert findings(load(mesh)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(examples()) - {"money-fx", "lending"}))
def test_the_examples_get_no_warning_but_of_a_soil_that_is_rare(name):
    """Of 581,012 records of the forest cover data three have soil 15.

    money-fx has no records here, and the oddities are those of a mesh: lending is a collaboration.
    """
    found = findings(load(examples()[name]))
    soil = 'nodes.north.source.schema.features.soil: "15" never occurs in the first 10,000 records'
    assert [line.partition(" of /")[0] for line in found] == ([soil] if name == "forest-cover" else [])


def test_run_says_afterwards_what_check_warns_of_from_records(checked, call, mesh):
    """How many are malformed is counted of all that was learnt from, so not said twice."""
    one_node = ("b: b.yaml\n  c: c.yaml\n", ""), ("[a, b, c]", "[a]")
    warned = checked("1,RED,ok\n1,red,ok\nx,red,ok\n" * 20, *one_node)
    assert [line for line in warned if "malformed" in line]
    expected = [f"Warning: {line}" for line in warned if "malformed" not in line]
    assert len(expected) == 3
    outcome = call("run", mesh, "--rounds", "5")
    assert outcome.code == 0
    *_, last = lines = outcome.out.splitlines()
    assert [line.replace(f"{mesh.parent}/", "") for line in lines if line.startswith("Warning: ")] == expected
    assert last.startswith("Malformed records: a ")


IDS = "".join(f"{k},red,ok,p{k % 12}\n{k},blue,bad,p{k % 12}\n" for k in range(60))


@pytest.mark.parametrize(
    "name", ["customer", "payment.customer_id", "CustomerId", "Customer No", "customers"]
)
def test_an_id_that_repeats_where_no_unit_is_named(checked, tmp_path, name):
    (tmp_path / "a.csv").write_text(f"x,c,y,{name}\n{IDS}")
    (line,) = checked()
    assert line == (
        f"nodes.a.source: the {IDS.count(chr(10))} records of a.csv seem to have an id of a customer, which "
        "repeats: one with k records is protected at k epsilon, unless mesh.privacy.unit names the column"
    )


@pytest.mark.parametrize("name", ["customer.age", "user_agent", "p", "discard"])
def test_a_column_with_another_name_is_no_id(checked, tmp_path, name):
    (tmp_path / "a.csv").write_text(f"x,c,y,{name}\n{IDS}")
    assert checked() == []


def test_ids_that_do_not_repeat_or_are_few_or_are_named_by_a_unit(checked, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "x,c,y,customer\n" + "".join(f"1,{'red,ok' if k % 2 else 'blue,bad'},{k}\n" for k in range(120))
    )
    assert checked() == []
    path.write_text("x,c,y,customer\n" + GOOD.replace("ok\n", "ok,1\n").replace("bad\n", "bad,2\n"))
    assert checked() == []
    path.write_text(f"x,c,y,customer\n{IDS}")
    unit = ("gradient_bound: 0.5", "gradient_bound: 0.5, unit: {column: customer, records: 1, apart: 40}")
    assert len(checked()) == 1
    assert checked(None, unit) == []
