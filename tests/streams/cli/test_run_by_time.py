"""`run` and `check` with slots by time: files in order of time, rounds that are given, and no clock."""

import csv
import json
from itertools import permutations

import pytest

PERIODS = 8
MESH = """
mesh:
  name: timed
  run: run-1
  nodes: [a, b]
  dimension: 2
  algorithm: {name: dpdo-nc, constraint: {l1-ball: 3}, step_size: {rule: inverse-sqrt, a: 0.5}}
  loss: squared
  slots: {by: time, period: 1, start: 100, size: 2}
  privacy: {mechanism: laplace, noise: simulated, epsilon: 1, gradient_bound: 5}
  topology: {graph: ring}
  horizon: 4
nodes:
""" + "".join(
    f"""  {name}:
    source:
      kind: json-lines
      path: {name}.jsonl
      schema: {{features: {{x: number, y: number}}, label: {{column: z}}, timestamp: at}}
"""
    for name in "ab"
)


def row(at, number):
    return json.dumps({"x": number % 5, "y": 1, "z": number % 3, "at": at})


ROWS = [row(100.5 + k, k) for k in range(PERIODS)]


@pytest.fixture
def timed(tmp_path):
    """A mesh of two nodes whose records have a time each, one a slot."""
    path = tmp_path / "timed.yaml"
    path.write_text(MESH)
    for name in "ab":
        write(tmp_path, name, ROWS)
    return path


def write(folder, name, rows):
    (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


def releases(call, mesh, out="out", rounds=PERIODS):
    """The decisions of each round, which are functions of all releases before it, and the whole outcome."""
    outcome = call("run", mesh, "--rounds", rounds, "--output", out)
    assert (outcome.code, outcome.err) == (0, "")
    found = rows_of(mesh.parent / out / "rounds.csv")
    assert max(int(round) for round, _ in found) == rounds
    return found


def rows_of(path):
    with path.open() as opened:
        return {(row["round"], row["node"]): row for row in csv.DictReader(opened)}


def decision(row):
    return [value for name, value in row.items() if name.startswith("decision")]


def test_one_record_dated_far_ahead_changes_nothing_but_its_own_slot(call, timed, tmp_path):
    usual = releases(call, timed)
    for added in (
        '{"x": 9, "y": 9, "z": 9, "at": 1e12}',
        '{"x": 9, "y": 9, "z": 9, "at": "2999-01-01T00:00:00Z"}',
    ):
        write(tmp_path, "a", [*ROWS[:3], added, *ROWS[3:]])
        assert releases(call, timed) == usual
    write(tmp_path, "a", [*ROWS[:3], row(105.6, 4), *ROWS[3:]])
    other = releases(call, timed)
    differing = {int(round) for round, node in usual if usual[round, node] != other[round, node]}
    assert differing == {6, 7, 8}  # a's score in round 6, and every decision that follows from its release


def test_the_order_of_the_lines_does_not_matter(call, timed, tmp_path):
    usual = releases(call, timed)
    write(tmp_path, "a", [ROWS[k] for k in (6, 1, 7, 0, 3, 2, 5, 4)])
    assert releases(call, timed) == usual


def test_every_slot_up_to_the_rounds_closes_empty_or_not(call, timed, tmp_path):
    write(tmp_path, "a", [ROWS[1], ROWS[5], '{"x": 1, "y": 1, "z": 1}'])
    assert len(releases(call, timed, rounds=20)) == 40


def test_what_entered_no_slot_is_said(call, timed, tmp_path):
    assert "entered no slot" not in call("run", timed, "--rounds", PERIODS).out
    write(tmp_path, "a", ['{"x": 1}', *ROWS, *[row(101.7, 1)] * 3, row(99.9, 1), row(1e9, 1)])
    outcome = call("run", timed, "--rounds", PERIODS, "--output", "out")
    said = "a 1 without a time, 1 before the first slot, 2 more than a slot holds"
    assert f"Records that entered no slot, each node's own secret too: {said}.\n" in outcome.out
    nodes = json.loads((tmp_path / "out" / "summary.json").read_text())["nodes"]
    assert [node["dropped"] for node in nodes] == [
        {"untimed": 1, "late": 1, "overfull": 2},
        {"untimed": 0, "late": 0, "overfull": 0},
    ]


def test_a_file_without_a_record_is_a_stream(call, timed, tmp_path):
    """The only record may be absent too, so that nobody sees whether there is one."""
    ended = []
    for number in (1, 0):
        (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in ROWS[:number]))
        (tmp_path / "b.jsonl").write_text("")
        checked, folders = call("check", timed), (tmp_path / f"out-{number}", tmp_path / f"state-{number}")
        options = ("--rounds", PERIODS, "--output", folders[0], "--state", folders[1])
        ran = call("run", timed, *options)
        names = sorted(path.name for folder in folders for path in folder.iterdir())
        ended.append(
            (checked.code, checked.err, ran.code, ran.err, len(rows_of(folders[0] / "rounds.csv")), names)
        )
    assert ended[0] == ended[1]
    assert ended[0][:5] == (0, "", 0, "", 2 * PERIODS)


def test_a_file_that_is_missing_or_cannot_be_read_is_a_mistake(call, timed, tmp_path):
    (tmp_path / "a.jsonl").unlink()
    for command in (("run", "--rounds", PERIODS), ("check",)):
        outcome = call(command[0], timed, *command[1:])
        assert outcome.code == 2
        assert outcome.err.startswith(f"{timed}: nodes.a.source.path: ")
        assert "cannot be read: No such file or directory" in outcome.err
    timed.write_text(MESH.replace("json-lines", "csv"))
    (tmp_path / "a.jsonl").write_text("")  # not even a header
    outcome = call("run", timed, "--rounds", PERIODS)
    assert (outcome.code, outcome.out) == (2, "")
    assert "must be a file that starts with a header row" in outcome.err


def test_times_without_a_zone_are_no_success(call, timed, tmp_path):
    write(tmp_path, "a", [row("2024-03-01T12:00:00", 1)] * 30)
    outcome = call("run", timed, "--rounds", PERIODS, "--quiet")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err == "Malformed records: a 30 of 30 (at: a time without a zone).\n"


def test_rounds_must_be_given_and_check_proposes_them(call, timed, tmp_path):
    outcome = call("run", timed)
    assert (outcome.code, outcome.out) == (2, "")
    words = "mesh.rounds: none, and slots by time do not end: must be a number (check proposes some), or give"
    assert outcome.err == f"{timed}: {words} --rounds\n"
    for rows in ([row(170.0, 1), *ROWS], ROWS[1:]):  # no record decides what is proposed
        write(tmp_path, "b", rows)
        outcome = call("check", timed)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out.endswith("--rounds: 86,400 for a day, 604,800 for a week\n")
    timed.write_text(MESH.replace("period: 1,", "period: 1000000,"))
    assert call("check", timed).out.endswith("--rounds: 1 for a day, 1 for a week\n")
    timed.write_text(MESH)
    timed.write_text(MESH.replace("horizon: 4", "horizon: 4\n  rounds: 8"))
    assert "--rounds" not in call("check", timed).out
    assert call("run", timed).code == 0


def test_the_slot_of_the_last_record_is_shown_to_who_asks_for_it(call, timed, tmp_path):
    write(tmp_path, "b", [row(170.0, 1), *ROWS])
    outcome = call("check", timed, "--last")
    warned = "this tells when the last record was, so keep it to yourself\n"
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith(f"the last record here is of slot 71: {warned}")
    for name in "ab":
        write(tmp_path, name, [row(3, 1)])
    assert (
        f"the last record here lies before the first slot, or there is none: {warned}"
        in call("check", timed, "--last").out
    )
    timed.write_text(MESH.replace("by: time, period: 1, start: 100", "by: count"))
    outcome = call("check", timed, "--last")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith('mesh.slots.by: "count": --last is for slots by time: must be time\n')


def test_check_looks_past_records_without_a_time(call, timed, tmp_path):
    write(tmp_path, "a", ['{"x": 1}'] * 150)
    outcome = call("check", timed)
    assert outcome.code == 2
    assert outcome.err.endswith(
        "schema.timestamp: reads no time in the first 150 records: at: missing (150)\n"
    )
    write(tmp_path, "a", [row("2026-01-31T12:00:00", 1)])
    said = "reads no time in the first record: at: a time without a zone (1)\n"
    assert call("check", timed).err.endswith(said)
    write(tmp_path, "a", ['{"x": 1}'] * 150 + ROWS)
    assert call("check", timed).code == 0


def test_standard_input_cannot_be_put_in_order(call, timed):
    timed.write_text(MESH.replace("a.jsonl", '"-"'))
    outcome = call("run", timed, "--rounds", 8)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith(
        'nodes.a.source.path: "-": with slots by time records are put in order first: must be a file\n'
    )


def test_a_run_goes_on_by_time(call, timed, tmp_path):
    assert call("run", timed, "--rounds", 3, "--state", "parts").code == 0
    outcome = call("run", timed, "--rounds", PERIODS, "--state", "parts", "--output", "out")
    assert "rounds 4 to 8" in outcome.out
    parts, whole = rows_of(tmp_path / "out" / "rounds-from-4.csv"), releases(call, timed, "whole")
    assert {key: decision(found) for key, found in whole.items() if int(key[0]) > 3} == {
        key: decision(found) for key, found in parts.items()
    }


BROKERS = """
brokers:
  mesh: {servers: "127.0.0.1:1"}
  data: {servers: "127.0.0.1:1"}
  trust_broker: true
"""


def past(timed, rounds="rounds: 8"):
    """Give the mesh brokers; its slots lie in 1970."""
    timed.write_text(timed.read_text().replace("horizon: 4", f"horizon: 4\n  {rounds}") + BROKERS)
    return timed


def test_slots_that_lie_in_the_past_are_said_of_a_file_that_names_brokers(call, timed):
    assert "ended" not in call("check", timed).out + call("plan", timed).out
    past(timed)
    for command in ("check", "plan"):
        outcome = call(command, timed)
        assert outcome.code == 0
        (line,) = (line for line in outcome.out.splitlines() if "slot 1 ended" in line)
        assert " d ago, and slot 8, the last, " in line
        assert line.endswith("on a broker no record enters a slot any more")


@pytest.mark.parametrize("command", [("up",), ("feed", "a")])
def test_a_run_whose_slots_all_lie_in_the_past_is_refused_before_anything_is_done(
    call, timed, tmp_path, command
):
    outcome = call(command[0], past(timed), *command[1:])
    assert (outcome.code, outcome.out) == (2, "")
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"{timed}: mesh.slots.start: slot 1 ended ")
    assert line.endswith("must be later; with up --replay a mesh starts now, and all times move along")
    assert not list((tmp_path / "mirrormesh-state").glob("*/*"))


def test_a_run_without_an_end_is_not_refused(call, timed):
    past(timed, "rounds: none")
    assert "a run that begins now on a broker begins with slot " in call("check", timed).out
    outcome = call("up", timed, "--metrics-from", -1)  # the next check refuses this
    assert "--metrics-from -1" in outcome.err


def test_which_records_come_first_does_not_decide_whether_check_is_right(call, timed, tmp_path):
    """A tenth is malformed, all of it before the rest; one good record more at the beginning is no news."""
    bad = [json.dumps({"x": 1, "y": 1, "z": "none", "at": 101}) for _ in range(110)]
    rows = [*bad, *(row(103, k) for k in range(1_000))]
    ended = []
    for more in ([], [row(100, 1)]):
        write(tmp_path, "a", [*more, *rows])
        outcome = call("check", timed)
        ended.append((outcome.code, outcome.err))
    assert ended == [(0, "")] * 2


@pytest.mark.parametrize("command", ["run", "check"])
def test_held_out_records_may_be_none_at_all(call, timed, tmp_path, command):
    """A part of a file may be empty, and one record more fill it."""
    held_out = (
        "{kind: json-lines, path: h.jsonl, schema: {features: {x: number, y: number}, label: {column: z}}}"
    )
    timed.write_text(timed.read_text() + f"held_out: {held_out}\n")
    ended = []
    for rows in ("", row(105, 1) + "\n"):
        (tmp_path / "h.jsonl").write_text(rows)
        outcome = call(command, timed, *(["--rounds", PERIODS] if command == "run" else []))
        ended.append((outcome.code, outcome.err))
    assert ended == [(0, "")] * 2
    (tmp_path / "h.jsonl").unlink()
    assert call("check", timed).code == 2


BAD = '{"x": 1, "y": 1, "z": "one", "at": AT}'


@pytest.mark.parametrize(("ties", "code"), [("gbb", 3), ("ggb", 0)])
def test_no_place_among_records_of_one_instant_decides_what_is_counted_as_malformed(call, timed, ties, code):
    """Slots hold two records; the third one of an instant enters none, and its fault counts all the same."""
    rows = {"g": row(101.5, 1), "b": BAD.replace("AT", "101.5")}
    outcomes = set()
    for order in sorted(set(permutations(ties))):
        early, behind = BAD.replace("AT", "99"), BAD.replace("AT", "1000")
        write(timed.parent, "a", [*(rows[kind] for kind in order), early, row(99, 1), *[behind] * 9])
        outcome = call("run", timed, "--rounds", 4, "--quiet")
        outcomes.add((outcome.code, outcome.out, outcome.err))
    malformed = ties.count("b") + 1
    line = f"Malformed records: a {malformed} of 5 (z: not a number).\n"
    assert outcomes == {(code, "", line if code else "")}
