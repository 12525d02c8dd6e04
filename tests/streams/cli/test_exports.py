"""Files as people export them: `check` proposes their dialect, and with it all records are learnt from."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.meshes.files import changed

ROWS = 60
AMOUNTS = [1.5 + 700 * k for k in range(ROWS)]
LABELS = ["yes" if k % 2 else "no" for k in range(ROWS)]
FEATURES = {"amount": {"bounds": [0, 50000]}}
SHOPS = ("Café Größe", "Straße")


def line(*values, delimiter=","):
    return delimiter.join(values)


def european(amount):
    return f"{amount:,.2f}".translate({ord(","): ".", ord("."): ","})


def rows(write, header="amount{0}fraud", delimiter=","):
    lines = [header.format(delimiter)]
    lines += [write(k, AMOUNTS[k], LABELS[k]) for k in range(ROWS)]
    return "\n".join(lines) + "\n"


BERLIN = {"format": "%d.%m.%Y %H:%M", "zone": "Europe/Berlin"}
AMERICAN = {"format": "%m/%d/%Y %I:%M %p", "zone": "America/New_York"}
SHOP = {"shop": {"categories": list(SHOPS)}}
EXPORTS = {
    "semicolons and decimal commas": (
        rows(lambda k, a, y: f"{a:.2f};{y}".replace(".", ","), delimiter=";").encode(),
        FEATURES,
        {"dialect": {"delimiter": ";", "decimal": ","}},
    ),
    "utf-16 with tabs": (
        rows(lambda k, a, y: f"{a}\t{SHOPS[k % 2]}\t{y}", "amount\tshop\tfraud").encode("utf-16"),
        FEATURES | SHOP,
        {"dialect": {"delimiter": "\t", "encoding": "utf-16"}},
    ),
    "latin-1": (
        rows(lambda k, a, y: f"{a},{SHOPS[k % 2]},{y}", "amount,shop,fraud").encode("latin-1"),
        FEATURES | SHOP,
        {"dialect": {"encoding": "cp1252"}},
    ),
    "thousands": (
        rows(lambda k, a, y: f'"{a:,.2f}",{y}').encode(),
        FEATURES,
        {"dialect": {"thousands": ","}},
    ),
    "thousands with dots": (
        rows(lambda k, a, y: f"{european(a)};{y}", delimiter=";").encode(),
        FEATURES,
        {"dialect": {"delimiter": ";", "decimal": ",", "thousands": "."}},
    ),
    "quoted line breaks": (
        rows(lambda k, a, y: f'{a},"a note\nof {k} lines\n",{y}', "amount,note,fraud").encode(),
        FEATURES,
        {"dialect": {"line_breaks": True}},
    ),
    "gaps": (
        rows(lambda k, a, y: f"{('', 'NA', '?', a)[k % 4]},{y}").encode(),
        {"amount": {"bounds": [0, 50000], "missing": {"as": "indicator"}}},
        {"schema": {"missing": ["NA", "?"]}},
    ),
    "times without a zone": (
        rows(lambda k, a, y: f"{a},{1 + k % 28:02}.03.2026 0{k % 10}:30,{y}", "amount,at,fraud").encode(),
        FEATURES | {"at": {"hour": "UTC"} | BERLIN},
        {},
    ),
    "times of the United States": (
        rows(
            lambda k, a, y: f"{a},03/{1 + k % 28:02}/2026 0{1 + k % 9}:30 PM,{y}", "amount,at,fraud"
        ).encode(),
        FEATURES | {"at": {"weekday": "America/New_York"} | AMERICAN},
        {},
    ),
    "a mark, quoted commas and carriage returns": (
        b"\xef\xbb\xbf" + rows(lambda k, a, y: f'{a},"x, {k}",{y}\r', "amount,note,fraud\r").encode(),
        FEATURES,
        {},
    ),
}


def written(folder, content, features, changes):
    (folder / "rows.csv").write_bytes(content)
    schema = {"features": features, "label": {"column": "fraud", "positive": "yes", "negative": "no"}}
    changes = dict(changes)
    source = {"kind": "csv", "path": "rows.csv", "schema": schema | changes.pop("schema", {})} | changes
    widths = {"hour": 24, "weekday": 7, "categories": 2}
    dimension = sum(widths.get(next(iter(kind)), 1) + ("missing" in kind) for kind in features.values())
    tree = changed(
        nodes=["a"], loss="hinge", dimension=dimension, topology={"graph": "complete"}, rounds=ROWS
    )
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree | {"nodes": {"a": {"source": source}}}))
    return path


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_learnt_from_whole(call, tmp_path, name):
    content, features, changes = EXPORTS[name]
    mesh = written(tmp_path, content, features, changes)
    checked = call("check", mesh)
    assert (checked.code, checked.err) == (0, "")
    assert "malformed" not in checked.out
    assert "dialect" not in checked.out
    outcome = call("run", mesh, "--output", "out")
    assert (outcome.code, outcome.err) == (0, "")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["rounds"], summary["nodes"][0]["malformed"]) == (ROWS, 0)


PROPOSED = [name for name, (_, _, changes) in EXPORTS.items() if "dialect" in changes]


@pytest.mark.parametrize("name", PROPOSED)
def test_check_proposes_the_dialect_and_run_says_what_does_not_fit(call, tmp_path, name):
    pytest.importorskip("clevercsv", reason="needs clevercsv: pip install 'mirrormesh[detect]'")
    content, features, changes = EXPORTS[name]
    mesh = written(tmp_path, content, features, {})
    checked = call("check", mesh)
    settings = ", ".join(f"{key}: {json.dumps(value)}" for key, value in changes["dialect"].items())
    assert f"look like dialect: {{{settings}}}" in checked.out + checked.err
    outcome = call("run", mesh)
    assert outcome.code in {2, 3} or "malformed" in outcome.out + outcome.err
    assert not re.search("Traceback|look like", outcome.out + outcome.err)


@pytest.mark.parametrize("name", ["thousands with dots", "latin-1", "quoted line breaks", "gaps"])
def test_held_out_records_and_predictions_are_read_alike(call, tmp_path, name):
    content, features, changes = EXPORTS[name]
    mesh = written(tmp_path, content, features, changes)
    tree = yaml.safe_load(mesh.read_text())
    mesh.write_text(yaml.safe_dump(tree | {"held_out": tree["nodes"]["a"]["source"]}))
    outcome = call("run", mesh, "--output", "out")
    assert (outcome.code, outcome.err) == (0, "")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["left_out"] == 0
    assert summary["score"] is not None
    predicted = call("predict", "out/model.json", "rows.csv", "--output", "predicted.csv")
    assert (predicted.code, predicted.err) == (0, "")
    lines = (tmp_path / "predicted.csv").read_text().splitlines()
    assert len(lines) == ROWS + 1
    assert all(re.fullmatch(r"[0-9]+,.*[0-9].*", one) for one in lines[1:])
    assert json.loads((tmp_path / "out" / "model.json").read_text())["source"].get("dialect") == (
        tree["nodes"]["a"]["source"].get("dialect")
    )


def test_a_delimiter_that_does_not_split_the_header_is_named(call, tmp_path):
    content, features, _ = EXPORTS["semicolons and decimal commas"]
    mesh = written(tmp_path, content, features, {})
    for command in ("run", "check"):
        outcome = call(command, mesh)
        assert outcome.code == 2
        assert (
            'nodes.a.source.dialect.delimiter: ",": is not in the header of '
            f'{tmp_path}/rows.csv, which is "amount;fraud": must be the character between values'
        ) in outcome.err


def test_run_feed_and_node_detect_nothing():
    """What a detector finds depends on records. It is loaded by the commands that propose alone."""
    code = "import sys, streams.cli, streams.live.node_process, streams.tools.feed.feed\n"
    code += "print('clevercsv' in sys.modules, 'charset_normalizer' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["False", "False"]
    used = {
        path.name
        for path in (Path(__file__).parents[3] / "streams").rglob("*.py")
        if "records.detection import" in path.read_text()
    }
    assert used <= {"check.py", "collaboration.py", "lint.py", "schema.py"}
