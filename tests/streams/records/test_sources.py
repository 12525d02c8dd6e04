"""Opening what a mesh file names: records with their decoder, and clear errors where they cannot be read."""

import gzip
from itertools import islice

import pytest
import yaml

from streams.mesh.file import MeshFileError, load
from streams.records.localisation import target_path
from streams.records.sources import decoder, held_out, open_source

SOURCE = {
    "kind": "csv",
    "path": "rows.csv",
    "schema": {
        "features": {"x": "number", "y": "number"},
        "label": {"column": "label", "positive": 1, "negative": 0},
        "timestamp": "at",
    },
}
MESH = {
    "name": "small",
    "run": "run-1",
    "nodes": ["a", "b"],
    "dimension": 2,
    "algorithm": {"name": "dola", "constraint": {"l2-ball": 1}, "step_size": {"rule": "constant", "a": 1}},
    "loss": "hinge",
    "slots": {"by": "count"},
    "privacy": {"mechanism": "none", "gradient_bound": 1},
    "topology": {"graph": "ring"},
}
ROWS = b"x,y,label,at\n1,2,1,10\n3,4,0,11\nbroken\n5,6,1,12\n"


def loaded(folder, *, mesh=(), source=(), own=None, held=None):
    tree = {"mesh": MESH | dict(mesh), "nodes": {"a": own or {"source": SOURCE | dict(source)}}}
    if held is not None:
        tree["held_out"] = held
    (folder / "mesh.yaml").write_text(yaml.safe_dump(tree))
    return load(folder / "mesh.yaml", {})


def read(file):
    source = open_source(file, "a", 0)
    return [(record.timestamp, source.decoder.decode(record.value)) for record in source.records]


def labels(found):
    return [None if decoded is None else decoded[1] for _, decoded in found]


def test_records_of_a_csv_file_keep_their_places(tmp_path):
    (tmp_path / "rows.csv").write_bytes(ROWS)
    found = read(loaded(tmp_path))
    assert labels(found) == [1.0, -1.0, None, 1.0]
    assert found[1][1][0].tolist() == [3.0, 4.0]
    assert {stamp for stamp, _ in found} == {None}


def test_records_of_json_lines_and_gzip(tmp_path):
    (tmp_path / "rows.json.gz").write_bytes(gzip.compress(b'{"x": 1, "y": 2, "label": 1}\n{}\n'))
    found = read(loaded(tmp_path, source={"kind": "json-lines", "path": "rows.json.gz"}))
    assert labels(found) == [1.0, None]


def test_slots_by_time_go_by_the_timestamps_of_the_records(tmp_path):
    (tmp_path / "rows.csv").write_bytes(ROWS)
    found = read(loaded(tmp_path, mesh={"slots": {"by": "time", "period": 1, "start": 10}}))
    assert [stamp for stamp, _ in found] == [None, 10.0, 11.0, 12.0]  # what is in no slot stands first


def test_with_slots_by_time_a_file_is_put_in_order_of_time_and_then_of_its_lines(tmp_path):
    times = (12, 10, 1e300, 11, 10, -5, 12)
    rows = "".join(f"{k},0,1,{at}\n" for k, at in enumerate(times))
    (tmp_path / "rows.csv").write_text("x,y,label,at\n" + rows)
    found = read(loaded(tmp_path, mesh={"slots": {"by": "time", "period": 1, "start": 10}}))
    assert [features[0] for _, (features, _) in found] == [5, 1, 4, 3, 0, 6, 2]
    assert [features[0] for _, (features, _) in read(loaded(tmp_path))] == list(range(7))


def test_localisation_has_one_record_a_slot(tmp_path):
    mesh = {"loss": "range", "slots": {"by": "time", "period": 2, "start": 100}}
    file = loaded(tmp_path, mesh=mesh, own={"source": {"kind": "localisation", "position": [3, 4]}})
    source = open_source(file, "a", 0)
    first, second = islice(source.records, 2)
    assert (first.timestamp, second.timestamp) == (101.0, 103.0)
    assert source.decoder.decode(first.value)[0].tolist() == [3.0, 4.0]


def test_localisation_says_where_the_target_is_if_asked(tmp_path):
    own = {"source": {"kind": "localisation", "truth": True}}
    file = loaded(tmp_path, mesh={"loss": "range"}, own=own)
    source = open_source(file, "a", 5)
    said = [source.decoder.truth(record.value).tolist() for record in islice(source.records, 300)]
    assert said == target_path(5, 300).tolist()
    assert decoder(file, "a").truth(b'{"target_x": 1, "target_y": 2}').tolist() == [1, 2]


def test_held_out_records_are_decoded_at_once(tmp_path):
    (tmp_path / "rows.csv").write_bytes(ROWS)
    features, found = held_out(loaded(tmp_path, held=SOURCE))
    assert features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.tolist() == [1.0, -1.0, 1.0]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "nodes.a.source.path: {path}: cannot be read: No such file or directory"),
        (b"", "nodes.a.source.path: {path}: must be a file that starts with a header row"),
        (
            b"\xff\n1\n",
            "nodes.a.source.path: {path}: line 1, at byte 0 of the file, is not utf-8: must be in ",
        ),
        (b"x,z,label,at\n", 'nodes.a.source.schema: "y": not in the header of {path}, which is '),
        (b"x, y\n", 'nodes.a.source.schema: "y": not in the header of {path}, which is "x", " y"'),
        (b"x,y,label,at,x\n", 'nodes.a.source.schema: "x": twice in the header of {path}, which is '),
    ],
)
def test_a_file_that_cannot_be_used_is_told(tmp_path, content, expected):
    if content is not None:
        (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(MeshFileError) as caught:
        read(loaded(tmp_path))
    (line,) = caught.value.lines
    named = expected.split("{path}")
    assert line.startswith(f"{tmp_path}/mesh.yaml: {named[0]}")
    assert line.endswith(named[-1]) or named[-1] in line


PACKED = gzip.compress(ROWS, mtime=0)
DAMAGED = {"not gzip": b"not gzip at all\n", "cut off": PACKED[:-9], "junk inside": PACKED[:12] + b"junk"}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_told(tmp_path, content):
    (tmp_path / "rows.csv.gz").write_bytes(content)
    with pytest.raises(
        MeshFileError, match=r"nodes.a.source.path: .*rows.csv.gz\": cannot be read: it is damaged$"
    ):
        read(loaded(tmp_path, source={"path": "rows.csv.gz"}))


def test_a_node_without_a_source_is_told(tmp_path):
    with pytest.raises(
        MeshFileError, match=r"mesh.yaml: nodes.a.source: missing: must be given to run the node"
    ):
        read(loaded(tmp_path, own={"source": None}))
    with pytest.raises(MeshFileError, match=r"mesh.yaml: nodes.b: missing: must be here"):
        open_source(loaded(tmp_path), "b", 0)


def test_nothing_held_out_is_told(tmp_path):
    with pytest.raises(MeshFileError, match=r"mesh.yaml: held_out: missing"):
        held_out(loaded(tmp_path))
    (tmp_path / "rows.csv").write_bytes(b"x,y,label,at\nbroken\n")
    with pytest.raises(MeshFileError, match=r"held_out.path: .*rows.csv.* no record that can be decoded"):
        held_out(loaded(tmp_path, held=SOURCE))
