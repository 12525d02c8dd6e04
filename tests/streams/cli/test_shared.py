"""Nodes that hold the same records: said in one line, and counted, by every command that promises."""

import pytest

from tests.support.meshes.files import changed, written

SCHEMA = {"features": {"x": "number", "y": "number"}, "label": {"column": "d"}}
SAID = (
    "Nodes a, b may hold the same records (they read one file, or files of equal content): a record in both"
)


def mesh_file(folder, paths=("a.csv", "a.csv"), take=None, **privacy):
    """Two nodes that read those files."""
    rows = "x,y,d\n" + "".join(f"1,0,{k}\n" for k in range(8))
    tree = changed(nodes=["a", "b"], privacy={"noise": "exact"} | privacy, rounds=3)
    for path in paths:
        (folder / path).write_text(rows)
    sources = [{"kind": "csv", "path": path, "schema": SCHEMA} for path in paths]
    if take:
        sources = [source | {"take": {"every": 2, "offset": k}} for k, source in enumerate(sources)]
    tree["nodes"] = {name: {"source": source} for name, source in zip("ab", sources, strict=True)}
    return written(folder, tree)


@pytest.mark.parametrize(
    "paths", [("a.csv", "a.csv"), ("a.csv", "b.csv")], ids=["one file", "two of one content"]
)
def test_all_say_what_a_record_in_both_pays(call, tmp_path, paths):
    path = mesh_file(tmp_path, paths)
    said = f"{SAID} is protected with epsilon = 2 (pure) over them."
    assert said in call("check", path).out.splitlines()
    assert call("plan", path).out.count(said) == 1
    assert call("run", path).out.count(said) == 1
    assert call("run", path, "--state", "state").out.count(said) == 1
    assert call("budget", path, "--state", "state").out.count(said) == 2  # of each node


def test_deltas_and_what_is_not_protected_are_counted_too(call, tmp_path):
    path = mesh_file(tmp_path, mechanism="gaussian", delta=1e-6, epsilon=0.25)
    assert f"{SAID} is protected with epsilon = 0.5 (delta = 2e-06) over them." in call("check", path).out
    path.write_text(path.read_text().replace("exact", "simulated"))
    assert "nothing is known to be protected of a record in both." in call("check", path).out


def test_parts_of_one_file_share_nothing(call, tmp_path):
    assert "same records" not in call("check", mesh_file(tmp_path, take=True)).out
