"""Feeding an owner's set to its topic: what is no set is refused before a broker is asked."""

import pytest
import yaml

from tests.support.collaborations.folders import write


@pytest.fixture
def star(tmp_path):
    """A collaboration whose owner `a` has its set on the topic of a broker that is not there."""
    path = write(tmp_path)
    tree = yaml.safe_load(path.read_text())
    brokers = {one: {"servers": "127.0.0.1:1"} for one in ("mesh", "data")} | {"trust_broker": True}
    source = tree["owners"]["a"]["source"]
    del source["path"]
    tree["owners"]["a"] = {"source": source | {"columns": ["x", "y", "z"]}, "brokers": brokers}
    path.write_text(yaml.safe_dump(tree))
    header, *lines = (tmp_path / "a.csv").read_text().splitlines()
    assert header == "x,y,z"
    (tmp_path / "set.csv").write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda text: text.replace("0.25", "much"),
            "owners.a.source: 1 of 6 records cannot be read (y: not a number (1)), the first is record 1: ",
        ),
        (
            lambda text: f"x,y,z\n{text}",
            "owners.a.source: 1 of 7 records cannot be read (x: not a number (1)), the first is record 1: ",
        ),
        (lambda text: text + "1,1,1\n", "mesh.owners.a.records: 6: the set holds 7 of them: must be that"),
        (lambda text: text[:-1].rpartition("\n")[0], "mesh.owners.a.records: 6: the set holds 5 of them"),
        (lambda _: "", "mesh.owners.a.records: 6: the set holds no record: must be that number, at least 2"),
    ],
    ids=("not a number", "a header", "one more", "one fewer", "none"),
)
def test_a_file_that_is_not_the_announced_set_is_refused_before_a_line_is_sent(
    call, star, tmp_path, change, says
):
    (tmp_path / "set.csv").write_text(change((tmp_path / "set.csv").read_text()))
    done = call("feed", star, "a", tmp_path / "set.csv")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{star}: {says}")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a"], "FILE: missing: must be a file, which is looked at whole before anything is fed"),
        (["a", "-"], "FILE: standard input can be read only once: must be a file"),
        (["a", "nowhere.csv"], 'owners.a.source.path: "nowhere.csv": cannot be read: No such file'),
        (
            ["b", "set.csv"],
            "the owner reads this file itself: must not be given to take the set from data.small.b",
        ),
        (["zz", "set.csv"], "is no owner of the mesh"),
        (["a", "set.csv", "--records", "3"], "--records: goes with a mesh of nodes: a set is fed whole"),
        (["a", "set.csv", "--timestamps"], "--timestamps: goes with a mesh of nodes"),
        (["a", "set.csv", "--shift", "4"], "--shift: goes with a mesh of nodes"),
    ],
)
def test_a_request_that_fits_no_set_is_one_line(call, star, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    done = call("feed", star, *words)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert len(done.err.splitlines()) == 1
