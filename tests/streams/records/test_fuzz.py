"""Slots of records that somebody has spoilt: each is closed, whatever is in it."""

import json
import math
import random

import numpy as np
import pytest

from nodes.sparse import SparseRows
from streams.mesh.settings.schema import SchemaSettings
from streams.mesh.settings.sparse import CsrSettings
from streams.records.decoder import CsvFields, SchemaDecoder, json_fields
from streams.records.observed import observed, truth
from streams.records.sources import decoder
from streams.records.sparse import csr_lines
from tests.support.meshes.sources import DIMENSION, KINDS, SPARSE, mesh_of, record

SLOTS = 50_000
ODD = (
    *(b"", b"\0", b"-", b"+", b".", b"e", b"_", b":", b",", b'"', b"\n", b"\r", b" ", b"{", b"}", b"[", b"]"),
    *(
        b"nan",
        b"NaN",
        b"inf",
        b"-Infinity",
        b"1e999",
        b"-1e999",
        b"1e308",
        b"5e-324",
        b"-0.0",
        b"1_0",
        b"0x1",
    ),
    *(b"9223372036854775807", b"-9223372036854775807", b"-9223372036854775808", b"18446744073709551615"),
    *(b"99999999999999999999999", b"9" * 400, b"9" * 5000, b"0." + b"1" * 2000, b"1e" + b"9" * 300),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", "\u0661".encode(), "\U0001f600".encode()),
    *(
        b"true",
        b"null",
        b"[]",
        b"{}",
        b'"x"',
        b"[" * 2000,
        b'{"x":' * 500,
        b"1:1",
        b"2:2 1:1",
        b" 3:1",
        b"0:1",
    ),
    *(b"x" * 20_000, b"exit", b"generator", b'"label": 777', b'"target_x": 1e999, "at": "\\ud800"'),
)


def spoilt(rng, value):
    """The record with a few things put in, cut out or turned over."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(value) + 1)
        way = rng.random()
        if way < 0.5:
            value = value[:at] + rng.choice(ODD) + value[at + rng.choice((0, 0, 1, 3)) :]
        elif way < 0.7:
            value = value[:at] + rng.randbytes(rng.choice((1, 2, 8))) + value[at + 1 :]
        elif way < 0.85:
            value = value[:at] + value[at + rng.choice((1, 2, 5)) :]
        elif way < 0.95:
            value = value[:at]
        else:
            value = rng.choice(ODD)
    return value


def slots(rng, kind):
    """Slots of a spoilt record, or of one beside a sound one."""
    usual = record(kind)
    for _ in range(SLOTS):
        value = spoilt(rng, usual)
        yield rng.choice(((value,), (value,), (value,), (usual, value), (value, usual)))


@pytest.mark.parametrize("kind", KINDS)
def test_50_000_spoilt_slots_of_each_kind_close(tmp_path, monkeypatch, kind):
    read = decoder(
        mesh_of(tmp_path, monkeypatch, kind, **({"truth": True} if kind == "localisation" else {})), "b"
    )
    rng, closed, present, absent = random.Random(16), 0, 0, 0  # noqa: S311 # nothing secret
    for values in slots(rng, kind):
        seen = observed(values, read)
        n = len(values)
        assert isinstance(seen.features, SparseRows) == (kind in SPARSE)
        assert (seen.features.shape, seen.labels.shape, seen.present.shape) == ((n, DIMENSION), (n,), (n,))
        stored = seen.features.values if kind in SPARSE else seen.features
        assert all(map(math.isfinite, (*seen.labels.tolist(), *stored.ravel().tolist())))
        here = sum(seen.present.tolist())
        closed, present, absent = closed + 1, present + here, absent + n - here
        if kind == "localisation":
            said = truth(values, read)
            assert said is None or np.isfinite(said).all()
    assert closed == SLOTS
    assert min(present, absent) > SLOTS / 4


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "own"])
def test_no_decoder_leans_on_what_stands_behind_it(tmp_path, monkeypatch, kind):
    """Each is total by itself: the gate's second line has nothing to do."""
    read = decoder(mesh_of(tmp_path, monkeypatch, kind), "b")
    rng = random.Random(61)  # noqa: S311 # as above
    for _ in range(5_000):
        value = spoilt(rng, record(kind))
        read._decoded(value)
        if kind not in SPARSE:
            read._parts(value)


WIDE = {
    "features": {
        "amount": {"log": [0.01, 1e6]},
        "age": {"buckets": [30, 60]},
        "at": {"hour": "America/New_York"},
        "day": {"weekday": "UTC"},
    },
    "label": {"column": "label"},
    "timestamp": "at",
}
ROW = {"amount": 12.5, "age": 30, "at": "2026-03-08T07:30:00Z", "day": 1772953200.5, "label": 1.5}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_nor_does_one_of_any_kind_of_column(kind):
    csv_line = ",".join(map(str, ROW.values())).encode()
    usual, fields = {
        "csv": (csv_line, CsvFields(tuple(ROW))),
        "json": (json.dumps(ROW).encode(), json_fields),
    }[kind]
    read = SchemaDecoder(SchemaSettings.model_validate(WIDE), fields)
    assert read.dimension == 1 + 3 + 24 + 7
    rng, present = random.Random(18), 0  # noqa: S311 # as above
    for _ in range(10_000):
        value = spoilt(rng, usual)
        found = read._decoded(value)  # by itself: what stands behind it catches what it raises
        read._timestamp(value)
        assert (read._fault(value) is None) == (found is not None), value
        if found is not None:
            features, label = found
            present += 1
            assert features.shape == (35,)
            assert 0 <= features.min() <= features.max() <= 1
            assert [sum(part) for part in (features[1:4], features[4:28], features[28:])] == [1, 1, 1]
            assert math.isfinite(label)
    assert present > 300


@pytest.mark.parametrize("dtype", ["<i8", "<u8", "<i4"])
def test_rows_of_any_numbers_are_lines(tmp_path, monkeypatch, dtype):
    file = mesh_of(tmp_path, monkeypatch, "csr")
    read, rng = decoder(file, "b"), random.Random(4)  # noqa: S311 # as above
    width, n = np.dtype(dtype).itemsize, 3_000
    indices = np.frombuffer(rng.randbytes(width * 2 * n), dtype).copy()
    indices[rng.sample(range(2 * n), n)] = 1
    values = np.frombuffer(rng.randbytes(16 * n), "<f8")
    path = tmp_path / "any.npz"
    np.savez(
        path,
        data=values,
        indices=indices,
        indptr=np.arange(0, 2 * n + 1, 2),
        shape=[n, DIMENSION],
        y=np.frombuffer(rng.randbytes(8 * n), "<f8"),
    )
    lines = tuple(csr_lines(str(path), CsrSettings(kind="csr"), DIMENSION))
    seen = observed(lines, read)
    assert seen.features.shape == (n, DIMENSION)
    assert not seen.present.all()
