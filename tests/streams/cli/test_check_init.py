import gzip
import json
import os
import re
from itertools import islice
from typing import get_args

import numpy as np
import pytest
import yaml

from streams.mesh.file import load
from streams.mesh.settings.privacy import MechanismName
from streams.mesh.settings.rule import resolved
from streams.mesh.settings.schema import ColumnSettings
from streams.records.sources import open_source

CSV = """
      kind: csv
      path: {path}
      schema:
        features: {{x: number, y: number}}
        label: {{column: distance}}"""


def with_csv(mesh, path):
    source = "\n    source:" + CSV.format(path=path)
    mesh.write_text(mesh.read_text().replace(" {source: {kind: localisation}}", source, 1))


def test_a_right_file_is_said_to_be_right(call, mesh):
    outcome = call("check", mesh)
    assert (outcome.code, outcome.err) == (0, "")
    first, second = outcome.out.splitlines()
    assert first == f"{mesh}: right"
    assert "3 nodes" in second
    assert "40 rounds" in second
    assert "laplace" in second


def test_every_mistake_is_a_line_on_standard_error(call, mesh):
    mesh.write_text(
        mesh.read_text().replace("dimension: 2", "dimension: 0").replace("loss: range", "loss: x")
    )
    outcome = call("check", mesh)
    assert (outcome.code, outcome.out) == (2, "")
    assert [line.split(": ")[1] for line in outcome.err.splitlines()] == ["mesh.dimension", "mesh.loss"]


def test_a_part_that_is_elsewhere_is_no_mistake(call, mesh):
    mesh.write_text(mesh.read_text().replace("  b: {source: {kind: localisation}}", "  b: b.yaml"))
    outcome = call("check", mesh)
    assert outcome.code == 0
    assert "the own part of b is not here" in outcome.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"", "header"),
        (b"x,y\n1,2\n", "distance"),
        (b"x,y,distanz\n1,2,3\n", 'which is "x", "y", "distanz" (did you mean distanz?)\n'),
        (b"x,y,distance\n", 'records.csv": holds no record\n'),
        (
            b"x,y,distance\n1,2,?\n3;4;5\n",
            "fits none of the first 2 records: distance: not a number (1), wrong number of fields (1)\n",
        ),
        (
            b'x,y,distance\n1,2,"3,5"\n',
            "schema: fits none of the first record: distance: a decimal comma (1)\n",
        ),
    ],
)
def test_a_source_that_cannot_be_used_is_named(call, mesh, tmp_path, content, words):
    with_csv(mesh, "records.csv")
    if content is not None:
        (tmp_path / "records.csv").write_bytes(content)
    outcome = call("check", mesh)
    assert outcome.code == 2
    assert len([line for line in outcome.err.splitlines() if ".dialect: " not in line]) == 1
    assert "nodes.a.source" in outcome.err
    assert words in outcome.err


def test_a_source_without_a_time_that_can_be_read_is_named(call, mesh, tmp_path):
    with_csv(mesh, "records.csv")
    text = mesh.read_text().replace("{column: distance}", "{column: distance}\n        timestamp: at")
    mesh.write_text(text.replace("{by: count, size: 1}", "{by: time, period: 1, start: 0}"))
    assert "by: time" in mesh.read_text()
    (tmp_path / "records.csv").write_text("x,y,distance,at\n1,2,3,yesterday\n")
    outcome = call("check", mesh)
    assert outcome.code == 2
    assert (
        "nodes.a.source.schema.timestamp: reads no time in the first record: at: not a time (1)\n"
        in outcome.err
    )
    (tmp_path / "records.csv").write_text("x,y,distance,at\n1,2,3,yesterday\n1,2,3,7\n")
    assert call("check", mesh).code == 0


def test_a_source_without_a_truth_that_can_be_read_is_named(call, mesh, tmp_path):
    with_csv(mesh, "records.csv")
    mesh.write_text(
        mesh.read_text().replace("{column: distance}", "{column: distance}\n        truth: [u, v]")
    )
    (tmp_path / "records.csv").write_text("x,y,distance,u,v\n1,2,3,4,\n1,2,3,,5\n")
    outcome = call("check", mesh)
    assert outcome.code == 2
    assert "nodes.a.source.schema.truth: reads no truth in the first 2 records\n" in outcome.err
    (tmp_path / "records.csv").write_text("x,y,distance,u,v\n1,2,3,4,\n1,2,?,4,5\n1,2,3,,\n")
    assert call("check", mesh).code == 0
    (tmp_path / "records.csv").write_text("x,y,distance,u\n1,2,3,4\n")
    outcome = call("check", mesh)
    assert outcome.code == 2
    assert 'nodes.a.source.schema: "v": not in the header of ' in outcome.err


def test_a_damaged_archive_is_named(call, mesh, tmp_path):
    with_csv(mesh, "records.csv.gz")
    (tmp_path / "records.csv.gz").write_bytes(gzip.compress(b"x,y,distance\n1,2,3\n" * 100)[:15])
    outcome = call("check", mesh)
    assert outcome.code == 2
    assert "nodes.a.source.path" in outcome.err


def test_a_source_without_a_path_reads_what_others_write(call, mesh):
    source = "{kind: json-lines, schema: {features: {x: number, y: number}, label: {column: d}}}"
    text = mesh.read_text()
    begin = text[: text.index("nodes:\n")]
    mesh.write_text(f"{begin}nodes:\n  a: {{source: {source}}}\n")
    assert call("check", mesh).code == 0
    by_time = re.sub(r"slots: .*", "slots: {by: time, start: 0, period: 1}", begin)
    mesh.write_text(f"{by_time}nodes:\n  a: {{source: {source}}}\n")
    assert call("check", mesh).code == 0  # by Kafka's own times
    mesh.write_text(f"{begin}nodes:\n  a: {{source: {source.replace('json-lines', 'csv')}}}\n")
    outcome = call("check", mesh)
    assert outcome.code == 2
    assert "nodes.a.source.columns: missing" in outcome.err


def test_a_pipe_is_refused_and_not_waited_for(call, mesh, tmp_path):
    with_csv(mesh, "records.csv")
    os.mkfifo(tmp_path / "records.csv")
    outcome = call("check", mesh)
    assert outcome.code == 2
    assert outcome.err.endswith('records.csv": is a pipe, which can be read only once: must be a file\n')


def test_standard_input_is_not_read(call, mesh):
    with_csv(mesh, '"-"')
    assert call("check", mesh).code == 0


def test_held_out_records_are_looked_at(call, mesh, tmp_path):
    (tmp_path / "train.csv").write_text("x,y,distance\n1,2,yes\n")
    with_csv(mesh, "train.csv")
    text = mesh.read_text().replace("loss: range", "loss: hinge")
    text = text.replace("{column: distance}", '{column: distance, positive: ["yes"]}')
    part = text[text.index("    source:\n") : text.index("\n  b:")]
    text = text[: text.index("nodes:\n  a")] + "nodes:\n" + "".join(f"  {n}:\n{part}\n" for n in "abc")
    mesh.write_text(
        text + "held_out:\n  kind: csv\n  path: test.csv\n  schema:\n    features: {x: number, y: number}\n"
        '    label: {column: distance, positive: ["yes"]}\n'
    )
    outcome = call("check", mesh)
    assert outcome.code == 2
    assert "held_out.path" in outcome.err
    (tmp_path / "test.csv").write_text("x,y,distance\n1,2,yes\n")
    assert call("check", mesh).code == 0


@pytest.mark.parametrize("options", [(), ("--explicit",), ("--commented",)])
def test_init_writes_a_file_that_checks_and_runs(call, tmp_path, options):
    assert call("init", *options).code == 0
    assert call("check", "mesh.yaml").code == 0
    file = load(tmp_path / "mesh.yaml")
    assert file.mesh.privacy.noise == "exact"
    assert (file.mesh.rule is None) == (options == ("--commented",))
    outcome = call("run", "mesh.yaml", "--rounds", 1)
    assert outcome.code == 0
    assert "rounds 1 to 1" in outcome.out


def test_a_run_of_sensors_says_where_their_target_is(call, tmp_path):
    """The oracle is the truth that a sensor sends with its last record."""
    call("init", "mesh.yaml", "--commented")
    outcome = call("run", "mesh.yaml", "--rounds", 20, "--output", "out")
    pattern = r"The sensors' target was last at \(([-.\d]+), ([-.\d]+)\), ([.\d]+) from the mean"
    x, y, away = map(float, re.search(pattern, outcome.out).groups())
    sensor = "north: {source: {kind: localisation"
    (tmp_path / "true.yaml").write_text(
        (tmp_path / "mesh.yaml").read_text().replace(sensor, f"{sensor}, truth: true")
    )
    file = load(tmp_path / "true.yaml")
    source = open_source(file, "north", file.mesh.seed)
    values = [record.value for record in islice(source.records, 20 * file.mesh.slots.size)]
    at = source.decoder.truth(values[-1])
    assert at == pytest.approx([x, y], rel=1e-3)
    decision = json.loads((tmp_path / "out" / "summary.json").read_text())["decision"]
    assert away == pytest.approx(np.hypot(*(np.array(decision) - at)), rel=1e-2)


def test_the_short_file_is_short_and_the_explicit_one_says_the_same(call, tmp_path):
    call("init", "short.yaml")
    call("init", "explicit.yaml", "--explicit")
    short, explicit = (load(tmp_path / f"{name}.yaml").mesh for name in ("short", "explicit"))
    assert short == explicit
    assert short.digest() == explicit.digest()
    left_out = (
        "algorithm:",
        "slots:",
        "mechanism:",
        "gradient_bound:",
        "step_size:",
        "constraint:",
        "bands:",
    )
    lines = (tmp_path / "short.yaml").read_text().splitlines()
    settings = [line for line in lines if not line.lstrip().startswith("#")]
    assert not any(word in line for line in settings for word in (*left_out, "dimension:"))
    assert len(settings) < 40
    text = (tmp_path / "explicit.yaml").read_text()
    for key, choice, _ in resolved(short):
        assert f"  # {key}: {choice.why}\n" in text
    assert "  algorithm: {name: moments, kappa: 1.0}\n" in text


def test_a_mesh_of_the_short_file_learns(call, tmp_path):
    call("init")
    outcome = call("run", "mesh.yaml")
    area = re.search(r"predict takes: accuracy .*?, AUC (0\.\d+)", " ".join(outcome.out.split()))
    assert float(area[1]) > 0.8  # 0.93 is usual, and the noise is exact


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("plan", ["--estimate"]),
        ("simulate", ["--histories", 2]),
        ("audit mechanism", ["--draws", 500]),
        ("forecast", []),
    ],
)
def test_what_a_short_file_leaves_out_is_there_for_every_command(call, command, options):
    call("init")
    outcome = call(*command.split(), "mesh.yaml", *options)
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize(
    "options",
    [("--explicit", "--commented"), ("--example", "income", "--explicit"), ("--example", "x", "--commented")],
)
def test_init_writes_one_kind_of_file(call, options):
    outcome = call("init", *options)
    assert outcome.code == 2
    assert re.fullmatch(r"--\w+ and --\w+: must be one of them\n", outcome.err)


def test_made_up_records_are_the_same_and_are_never_written_over(call, tmp_path):
    call("init", "first.yaml")
    content = (tmp_path / "records" / "north.csv").read_bytes()
    assert len(content.splitlines()) == 1_001
    assert call("init", "second.yaml").code == 0
    assert (tmp_path / "records" / "north.csv").read_bytes() == content
    (tmp_path / "records" / "north.csv").write_text("mine")
    outcome = call("init", "third.yaml")
    assert outcome.err == "records/north.csv: is there already: must be a new file\n"
    assert not (tmp_path / "third.yaml").exists()
    assert (tmp_path / "records" / "north.csv").read_text() == "mine"


def test_init_never_overwrites(call, tmp_path):
    (tmp_path / "mine.yaml").write_text("mine")
    outcome = call("init", "mine.yaml")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "mine.yaml: is there already: must be a new file\n"
    assert (tmp_path / "mine.yaml").read_text() == "mine"


def test_init_into_a_folder_that_is_not_there(call):
    outcome = call("init", "nowhere/mesh.yaml")
    assert outcome.code == 2
    assert outcome.err.startswith("nowhere/mesh.yaml: cannot be written")


def test_what_is_commented_out_in_the_starter_is_right_too(call, tmp_path):
    call("init", "mesh.yaml", "--commented")
    text = (tmp_path / "mesh.yaml").read_text()
    for line in ("budget: 100", "after_budget: relay", "switching: 0.5"):
        assert f"    # {line}" in text
        text = text.replace(f"    # {line}", f"    {line}")
    (tmp_path / "mesh.yaml").write_text(text)
    assert call("check", "mesh.yaml").code == 0


PRIVACY = {
    "laplace": (),
    "l2-sphere": ("budget: {",),
    "gaussian": ("delta: 1e-6", "budget: {"),
    "gaussian-bisr": ("delta: 1e-6", "bands: 16", "budget: {"),
    "none": (),
    "laplace, a total": ("epsilon: {",),
}


@pytest.mark.parametrize("name", PRIVACY)
def test_every_mechanism_that_the_starter_names_is_a_few_words_away(call, tmp_path, name):
    call("init", "mesh.yaml", "--commented")
    text = (tmp_path / "mesh.yaml").read_text()
    mechanism = name.partition(",")[0]
    assert set(get_args(MechanismName)) == {key.partition(",")[0] for key in PRIVACY}
    assert mechanism in next(line for line in text.splitlines() if "    mechanism: " in line)
    text = text.replace("mechanism: laplace", f"mechanism: {mechanism}")
    for line in PRIVACY[name]:
        assert f"    # {line}" in text
        if line.startswith("epsilon"):
            text = text.replace("    epsilon: 1 ", "    # epsilon: 1 ")
        text = text.replace(f"    # {line}", f"    {line}")
    (tmp_path / "mesh.yaml").write_text(text)
    assert call("check", "mesh.yaml").code == 0


def test_the_starters_example_of_a_source_is_right(call, tmp_path):
    call("init", "mesh.yaml", "--commented")
    lines = (tmp_path / "mesh.yaml").read_text().splitlines()
    first = lines.index("#   north:")
    block = [line.removeprefix("# ") for line in lines[first : lines.index("#", first)]]
    text = (
        "\n".join(lines[:first])
        .replace("loss: range", "loss: hinge")
        .replace("dimension: 2", "dimension: 21")
    )
    text = "\n".join(line for line in text.splitlines() if "kind: localisation" not in line)
    (tmp_path / "mesh.yaml").write_text(text + "\n" + "\n".join(block) + "\n")
    outcome = call("check", "mesh.yaml")
    assert outcome.err.count("\n") == 1
    assert "cannot be read" in outcome.err  # the records alone are missing


def test_the_columns_commented_out_there_are_right_too(call, tmp_path):
    call("init", "mesh.yaml", "--commented")
    text = (tmp_path / "mesh.yaml").read_text()
    named = dict(re.findall(r"^# +# (\w+): (\{.*?\})  ", text, re.MULTILINE))
    kinds = [
        ColumnSettings.model_validate(yaml.safe_load(named[name])) for name in ("amount", "balance", "at")
    ]
    assert [(kind.name, kind.width) for kind in kinds] == [("log", 1), ("buckets", 3), ("hour", 24)]
