"""`keep_back`: records that nothing is learnt from, on which a node's closing decision is scored."""

import csv
import json
import re

import numpy as np
import pytest
import yaml

from nodes.machine.slots import ClosedSlot
from streams.records.record import KeptBack

FEATURES = {"x": {"bounds": [-3, 3]}, "y": {"bounds": [-3, 3]}}


def records(folder, name, change=None):
    """200 records of a signal with times; `change` maps a record's number to the number that replaces x."""
    random = np.random.default_rng([7, *name.encode()])
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "x", "y", "sign"])
        for k in range(200):
            x, y = random.normal(size=2).round(4).tolist()
            sign = int(x > y + 0.3 * random.normal())
            writer.writerow([k + 0.5, (change or {}).get(k, x), y, sign])


def meshed(folder, mesh, share=0.25, by="count", **shared):
    """Write three nodes that learn a sign, with slots of 20 records."""
    tree = yaml.safe_load(mesh.read_text())
    slots = {
        "count": {"by": "count", "size": 20},
        "time": {"by": "time", "size": 30, "period": 20, "start": 0},
    }
    tree["mesh"] |= {"loss": "logistic", "dimension": 2, "rounds": 10, "slots": slots[by]} | shared
    schema = {"features": FEATURES, "label": {"column": "sign", "positive": "1"}}
    schema |= {"timestamp": "time"} if by == "time" else {}
    source = {"kind": "csv", "schema": schema} | ({} if share is None else {"keep_back": share})
    tree["nodes"] = {name: {"source": source | {"path": f"{name}.csv"}} for name in "abc"}
    for name in "abc":
        records(folder, name)
    mesh.write_text(yaml.safe_dump(tree))


def ran(call, mesh, folder):
    done = call("run", mesh, "--output", folder)
    assert (done.code, done.err) == (0, "")
    summary = json.loads((mesh.parent / folder / "summary.json").read_text())
    return done.out, summary


@pytest.mark.parametrize("by", ["count", "time"])
def test_nothing_is_learnt_from_a_record_that_is_kept_back(call, mesh, tmp_path, by):
    """Changed in their label, kept-back records change no bit that is learnt; any other record does."""
    meshed(tmp_path, mesh, by=by)
    _, before = ran(call, mesh, "before")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    slot = ClosedSlot[bytes](
        1, tuple(line.encode() for line in lines[1:]), (), places=tuple((0, k) for k in range(200))
    )
    mask = KeptBack(0.25, by_content=by == "time").of(slot)
    assert 20 < mask.sum() < 80
    decisions = [node["decision"] for node in before["nodes"]]
    if by == "count":  # by content a changed record would choose anew
        for k in np.flatnonzero(mask).tolist():
            lines[k + 1] = re.sub(r"[01]$", lambda sign: str(1 - int(sign[0])), lines[k + 1])
        (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
        _, after = ran(call, mesh, "after")
        assert [node["decision"] for node in after["nodes"]] == decisions
    else:
        left = [lines[0], *(line for line, is_kept in zip(lines[1:], mask, strict=True) if not is_kept)]
        (tmp_path / "a.csv").write_text("\n".join(left) + "\n")
        _, after = ran(call, mesh, "after")
        assert [node["decision"] for node in after["nodes"]] == decisions
    place = int(np.flatnonzero(~mask)[0]) if by == "count" else 0
    lines = (tmp_path / "a.csv").read_text().splitlines()
    lines[place + 1] = re.sub(r"[01]$", lambda sign: str(1 - int(sign[0])), lines[place + 1])
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    _, other = ran(call, mesh, "other")
    if by == "count":
        assert [node["decision"] for node in other["nodes"]] != decisions


def test_the_verdict_is_on_the_records_that_are_kept_back(call, mesh, tmp_path):
    meshed(tmp_path, mesh)
    out, summary = ran(call, mesh, "out")
    for node in summary["nodes"]:
        verdict = node["verdict"]
        assert verdict["basis"] == "records that it never learnt from"
        assert verdict["closing"]["records"] + verdict["facts"]["records"] == 200
        assert 20 < verdict["closing"]["records"] < 80
        assert node["malformed"] == 0
    assert "on records that it never learnt from" in out or "too few records" in out


def test_held_out_records_do_not_replace_those_that_an_owner_keeps_back(call, mesh, tmp_path):
    meshed(tmp_path, mesh)
    tree = yaml.safe_load(mesh.read_text())
    tree["nodes"]["b"]["source"].pop("keep_back")
    records(tmp_path, "test")
    source = {key: value for key, value in tree["nodes"]["a"]["source"].items() if key != "keep_back"}
    tree["held_out"] = source | {"path": "test.csv"}
    mesh.write_text(yaml.safe_dump(tree))
    _, summary = ran(call, mesh, "out")
    counts = {node["name"]: node["verdict"]["closing"]["records"] for node in summary["nodes"]}
    assert counts["b"] == 200
    assert max(counts["a"], counts["c"]) < 80


def test_no_content_decides_which_record_is_kept_back_with_slots_by_count():
    places, chooser = tuple((0, k) for k in range(10_000)), KeptBack(0.1, by_content=False)
    masks = [
        chooser.of(ClosedSlot(1, tuple(value % k for k in range(10_000)), (), places=places))
        for value in (b"%d", b"other %d")
    ]
    assert (masks[0] == masks[1]).all()
    assert 900 < masks[0].sum() < 1_100
    by_content = KeptBack(0.1, by_content=True)
    values = tuple(b"%d" % k for k in range(10_000))
    mask = by_content.of(ClosedSlot(1, values, (), places=places))
    assert 900 < mask.sum() < 1_100
    moved = by_content.of(ClosedSlot(1, (b"another", *values), (), places=((0, 0), *places)))
    assert (moved[1:] == mask).all()  # one record more moves no other


def test_plan_and_check_name_who_keeps_records_back(call, mesh, tmp_path):
    meshed(tmp_path, mesh, share=0.1)
    for command in ("plan", "check"):
        done = call(command, mesh)
        assert done.code == 0
        assert "10 % of the records of a, b, c are kept back" in done.out


@pytest.mark.parametrize("share", [0, 0.6, "0.1", True, None])
def test_a_share_is_above_0_and_at_most_a_half(call, mesh, tmp_path, share):
    meshed(tmp_path, mesh)
    tree = yaml.safe_load(mesh.read_text())
    tree["nodes"]["a"]["source"]["keep_back"] = share
    mesh.write_text(yaml.safe_dump(tree))
    done = call("plan", mesh)
    if share is None:
        assert done.code == 0
        return
    assert done.code == 2
    assert "nodes.a.source.keep_back" in done.err
    assert "must be a share above 0 and up to 0.5" in done.err


def test_it_goes_with_nodes_whose_records_have_no_units(call, mesh, tmp_path):
    meshed(tmp_path, mesh)
    tree = yaml.safe_load(mesh.read_text())
    tree["held_out"] = tree["nodes"]["a"]["source"]
    mesh.write_text(yaml.safe_dump(tree))
    done = call("plan", mesh)
    assert done.code == 2
    assert "held_out.keep_back: 0.25: goes with the source of a node" in done.err
