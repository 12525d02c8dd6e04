"""The swap test over every kind of source, both kinds of slots, and a user's own code."""

import pytest

from streams.records.record import RawRecord
from tests.simulation.test_swap import CHANGED, shared
from tests.support.meshes.files import loaded
from tests.support.meshes.sources import ALL_KINDS, SCHEMA, SPARSE, mesh_of, own_module, timed_mesh

MIB = 1 << 20
UNUSED = b", ".join(b'"key %d": [1, 2, {"more": null}]' % k for k in range(MIB // 32))
SPOILT = {
    "malformed": b"\xff\x00{",
    "empty": b"",
    "nested": b"[" * 10_000,
    "huge": b"9" * 5_000,
    "not a number": b"nan,nan,nan",
    "infinite": b"1e308,-1e308,1e308",
    "wrapped index": b"1 5:1 -9223372036854775807:1",
    "wrapped index, inside": b"1 1:1 -9223372036854775807:1 9223372036854775807:1 2:1",
    "a MiB of unused keys": b'{"x": 1, "y": 2, "label": 3, "distance": 2, %b}' % UNUSED,
    "a MiB of nothing": b"1.5 1:1 2:0.5".ljust(MIB),
    "sys.exit": b"exit",
    "GeneratorExit": b"generator",
}
OTHER = {"libsvm": b"-2 1:7 2:1", "csr": b"-2 1:7 2:1", "csv": b"7,1,-2", "own": b"7,1,-2"}
OTHER_JSON = b'{"x": 7, "y": 1, "label": -2, "distance": 0.1}'
COLUMNS = {
    "log": ({"log": [0.5, 10]}, 1, ("nan", "much", "1e999")),
    "buckets": ({"buckets": [1, 2]}, 3, ("nan", "inf", "[]")),
    "hour": ({"hour": "Europe/Berlin"}, 24, ("noon", "2026-01-01T00:00:00", "1e300", "0001-01-01T00:00:00Z")),
    "weekday": ({"weekday": "UTC"}, 7, ("monday", "-1e15", "9999-12-31T23:59:59-20:00")),
}
ROWS = [str(k % 5) for k in range(100)]


def replaced(file, content):
    """Swap the first record of slot CHANGED."""

    def change(kept):
        at = (CHANGED - 1) * (file.mesh.slots.size if file.mesh.slots.by == "count" else 1)
        kept[at] = RawRecord(content, kept[at].timestamp)

    return change


def swap(file, contents, sound):
    """Run with each of the contents; `sound`: that which the releases must tell from the usual one."""
    usual, values = shared(file)
    for name, content in (contents | {"another value": sound}).items():
        other, others = shared(file, replaced(file, content))
        assert other == usual, name
        assert others.keys() == values.keys(), name
        differing = {key for key in values if values[key] != others[key]}
        assert all(key[-1] > CHANGED for key in differing), name
        assert differing or name != "another value"


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_nothing_shared_depends_on_what_a_source_of_any_kind_gives(tmp_path, monkeypatch, kind):
    file = mesh_of(tmp_path, monkeypatch, kind, rows=ROWS, mesh={"rounds": 9})
    swap(file, SPOILT, OTHER.get(kind, OTHER_JSON))


PRIVACIES = {
    "parameters": (1, {"on": "parameters", "norm": "l2"}),
    "l2-sphere": (3, {"mechanism": "l2-sphere"}),
    "gaussian": (3, {"mechanism": "gaussian", "delta": 1e-6}),
}


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("privacy", PRIVACIES)
def test_nor_under_any_mechanism_of_sparse_records(tmp_path, monkeypatch, kind, privacy):
    size, settings = PRIVACIES[privacy]
    mesh = {"rounds": 8, "slots": {"by": "count", "size": size}, "privacy": settings}
    file = mesh_of(tmp_path, monkeypatch, kind, rows=ROWS, mesh=mesh)
    swap(file, {name: SPOILT[name] for name in SPOILT if "wrapped" in name or "MiB" in name}, OTHER[kind])


@pytest.mark.parametrize("kind", ["csv", "json-lines"])
@pytest.mark.parametrize("column", COLUMNS)
def test_nor_on_a_column_of_any_kind(tmp_path, monkeypatch, kind, column):
    """x becomes several features; y is all that another value differs in for CSV, x too for JSON."""
    settings, width, spoilt = COLUMNS[column]
    schema = SCHEMA | {"features": {"x": settings, "y": "number"}}
    mesh = {"rounds": 9, "dimension": width + 1}
    file = mesh_of(tmp_path, monkeypatch, kind, rows=ROWS, mesh=mesh, schema=schema)
    contents = {name: SPOILT[name] for name in ("malformed", "empty", "not a number", "infinite")}
    for text in spoilt:
        contents[text] = (
            f"{text},1,1".encode() if kind == "csv" else f'{{"x": "{text}", "y": 1, "label": 1}}'.encode()
        )
    swap(file, contents, OTHER.get(kind, OTHER_JSON))


@pytest.mark.parametrize("kind", ["localisation", "json-lines"])
def test_nor_in_slots_by_time(tmp_path, kind):
    swap(loaded(tmp_path, timed_mesh(tmp_path, kind, ROWS)), SPOILT, OTHER_JSON)


@pytest.mark.parametrize("kind", ["csv", "json-lines", "own"])
def test_nor_on_an_own_loss_that_leaves(tmp_path, monkeypatch, capfd, kind):
    loss = {"own": f"{own_module(tmp_path, monkeypatch)}:Twice"}
    file = mesh_of(tmp_path, monkeypatch, kind, rows=ROWS, mesh={"rounds": 9, "loss": loss})
    leaving = b'{"x": 7, "y": 1, "label": 777}' if kind == "json-lines" else b"7,1,777"
    swap(file, {"sys.exit in the loss": leaving}, OTHER.get(kind, OTHER_JSON))
    assert "777" not in "".join(capfd.readouterr())
