"""Files as people export them: `check` proposes their dialect, and with it all records are learnt from."""

import json
import re

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
