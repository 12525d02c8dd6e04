"""A user's own source: its records learn as a file's do, and no mistake of it says what a record holds."""

import logging
import signal
from itertools import count, islice

import numpy as np
import pytest

from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import MeshFileError, load
from streams.records.sources import decoder, open_source
from streams.tools.feed.lines import FeedOptions, opened
from tests.support.meshes.files import changed, loaded, written
from tests.support.processes.in_process import Commands

NUMBERS = count()
NO_RECORD = "not a record, by its source"
SOURCE = """
class Meter:
    dimension = 2

    def __init__(self, node):
        self.node = node

    def records(self):
        return (f"{k},{k % 3},{ord(self.node)}".encode() for k in range(30))

    def decode(self, value):
        x, y, label = map(float, value.split(b","))
        return [x / 30, y], label / 100


class Clumsy(Meter):
    def decode(self, value):
        if value.endswith(b"7,1,97"):
            raise KeyError(f"canary {value}")
        features, label = super().decode(value)
        return {0: None, 1: ([1.0], label), 2: ([float("nan"), 1.0], label), 3: (features, label)}[
            min(int(float(features[0] * 30)), 3)
        ]


class Breaking(Meter):
    def records(self):
        yield b"1,2,3"
        raise OSError("canary")


class Text(Meter):
    def records(self):
        return ["1,2,3"]


class Wide(Meter):
    dimension = 3


class Vague(Meter):
    dimension = None


class Empty(Meter):
    dimension = 0


class Mute:
    dimension = 2

    def __init__(self, node):
        pass

    def records(self):
        return []
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module with sources; its name."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"own_source_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    return name


def tree(name, **source):
    made = changed(nodes=list("abc"), loss="squared", rounds=10, slots={"by": "count", "size": 3})
    made["nodes"] = {node: {"source": {"kind": "own", "name": name} | source} for node in "abc"}
    return made


def test_the_records_of_a_node(module, tmp_path):
    file = loaded(tmp_path, tree(f"{module}:Meter"))
    source = open_source(file, "b", 0)
    first = [record.value for record in islice(source.records, 2)]
    assert first == [b"0,0,98", b"1,1,98"]
    for how in (source.decoder, decoder(file, "b")):
        features, label = how.decode(b"15,2,98")
        assert (how.dimension, features.tolist(), label) == (2, [0.5, 2.0], 0.98)


def test_no_file_is_fed_in_its_place(module, tmp_path):
    with pytest.raises(MeshFileError, match=r"nodes.a.source: must have the kind and schema of x.csv"):
        opened(loaded(tmp_path, tree(f"{module}:Meter")), "a", FeedOptions("x.csv"))


def test_take_and_shuffle_are_as_for_files(module, tmp_path):
    source = {"take": {"every": 10, "offset": 3}}
    values = [
        r.value for r in open_source(loaded(tmp_path, tree(f"{module}:Meter", **source)), "a", 0).records
    ]
    assert values == [b"3,0,97", b"13,1,97", b"23,2,97"]
    file = loaded(tmp_path, tree(f"{module}:Meter", shuffle=True))
    one, same, other = ([r.value for r in open_source(file, "a", seed).records] for seed in (0, 0, 1))
    assert one == same != other
    assert sorted(one) == sorted(other)


def decisions(folder, made):
    local = LocalRun(mesh_parts(loaded(folder, made)))
    local.mesh.run()
    local.mesh.close()
    return local.recorder.decisions()


def test_it_learns_as_the_same_records_in_files(module, tmp_path):
    own = tree(f"{module}:Meter")
    files = tree(f"{module}:Meter")
    for node in "abc":
        rows = "".join(f"{k / 30!r},{k % 3},{ord(node) / 100}\n" for k in range(30))
        (tmp_path / f"{node}.csv").write_text("x,y,z\n" + rows)
        schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
        files["nodes"][node]["source"] = {"kind": "csv", "path": f"{node}.csv", "schema": schema}
    np.testing.assert_array_equal(decisions(tmp_path, own), decisions(tmp_path, files))


def test_what_cannot_be_decoded_keeps_its_place_and_is_a_fault_by_type(module, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    file = loaded(tmp_path, tree(f"{module}:Clumsy"))
    source = open_source(file, "a", 0)
    missing = [k for k, record in enumerate(source.records) if source.decoder.decode(record.value) is None]
    assert missing == [0, 1, 2, 7]
    bad = source.decoder.decode(b"x,y")
    assert bad is None
    values = [record.value for record in open_source(file, "a", 0).records]
    faults = [str(source.decoder.fault(values[k])) for k in missing]
    assert set(faults) == {"its source: features of another shape", "its source: KeyError", NO_RECORD}
    assert str(source.decoder.fault(b"x,y")) == "its source: ValueError"
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("fault", "kind"), [("Breaking", "OSError"), ("Text", "TypeError")])
def test_a_source_that_breaks_is_told_by_type_alone(module, tmp_path, capsys, fault, kind):
    path = written(tmp_path, tree(f"{module}:{fault}"))
    outcome = Commands(capsys)("run", path, "--code", f"{module}:{fault}")
    assert (outcome.code, outcome.err) == (
        2,
        f"{path}: nodes.a.source.name: reading its records raised {kind}\n",
    )


MISTAKES = {
    "{}:Wide": "nodes.a.source.name: makes 3 features: must be 2, the dimension of the mesh",
    "{}:Vague": "its dimension is None: must be the number of features",
    "{}:Empty": "its dimension is 0: must be the number of features",
    "{}:Mute": "makes a Mute without the method decode",
    "{}:Nothing": "has no attribute Nothing",
    "meter": "no entry point of that name in mirrormesh.sources",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_where_the_source_is_needed(module, tmp_path, name):
    with pytest.raises(MeshFileError) as caught:
        mesh_parts(loaded(tmp_path, tree(name.format(module))))
    (line,) = caught.value.lines
    assert MISTAKES[name] in line
    assert line.endswith("(the same in b, c)")


def test_slots_by_time_are_refused(module, tmp_path):
    made = tree(f"{module}:Meter")
    made["mesh"]["slots"] = {"by": "time", "period": 1, "start": 0}
    with pytest.raises(MeshFileError, match=r"mesh\.slots\.by: .*an own source has no times: must be count"):
        load(written(tmp_path, made), {})


def test_it_is_checked_and_fed(module, tmp_path, capsys):
    call = Commands(capsys)
    path, allowed = written(tmp_path, tree(f"{module}:Meter", shuffle=True)), ("--code", f"{module}:Meter")
    assert call("check", path, *allowed).code == 0
    outcome = call("check", written(tmp_path, tree(f"{module}:Text")), "--code", f"{module}:Text")
    assert (outcome.code, outcome.err.count("TypeError")) == (2, 1)
    assert "(the same in b, c)" in outcome.err
    file = loaded(tmp_path, tree(f"{module}:Meter"))
    assert len(list(opened(file, "a", FeedOptions()).source.records)) == 30
    with pytest.raises(MeshFileError, match="--timestamps needs records that have a time"):
        opened(file, "a", FeedOptions(timestamps=True))


LEAVING = """
import sys


class Leaving:
    dimension = 2

    def __init__(self, node):
        pass

    def records(self):
        yield b"1,2,3"
        sys.exit("canary")

    def decode(self, value):
        raise {kind}(f"canary {{value}}")


class Never(Leaving):
    def records(self):
        raise {kind}("canary")


class Numbers(Leaving):
    def records(self):
        return 7
"""


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"])
def test_what_would_end_the_process_is_no_record(tmp_path, monkeypatch, caplog, capsys, kind):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"own_source_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(LEAVING.format(kind=kind))
    call = Commands(capsys)
    for source, raised in (("Leaving", "SystemExit"), ("Never", kind), ("Numbers", "TypeError")):
        path = written(tmp_path, tree(f"{name}:{source}"))
        outcome = call("run", path, "--code", f"{name}:{source}")
        assert outcome.err.endswith(f"{path}: nodes.a.source.name: reading its records raised {raised}\n")
        assert outcome.code == 2
        assert "canary" not in outcome.out + outcome.err + caplog.text
    monkeypatch.setattr(signal, "getsignal", lambda _: None)  # as where somebody notes a Ctrl-C
    leaving = decoder(loaded(tmp_path, tree(f"{name}:Leaving")), "a")
    assert leaving.decode(b"1,2,3") is None
    assert str(leaving.fault(b"1,2,3")) == f"its source: {kind}"
    assert caplog.text == ""


def test_its_records_may_be_closed_early(module, tmp_path):
    records = open_source(loaded(tmp_path, tree(f"{module}:Meter")), "a", 0).decoder.records(ValueError)
    assert next(records) == b"0,0,97"
    records.close()
    with pytest.raises(StopIteration):
        next(records)


def test_a_module_or_a_constructor_that_leaves_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"own_source_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text("import sys\n\n\ndef made(node):\n    sys.exit(3)\n")
    (tmp_path / f"{name}_too.py").write_text("import sys\n\nsys.exit(3)\n")
    for made, words in ((name, "making it raised SystemExit: 3"), (f"{name}_too", "raised SystemExit: 3")):
        with pytest.raises(MeshFileError) as caught:
            mesh_parts(loaded(tmp_path, tree(f"{made}:made")))
        assert words in caught.value.lines[0]


UNKIND = """
class Meta(type):
    @property
    def __name__(cls):
        raise SystemExit("canary")


class Nameless(BaseException, metaclass=Meta):
    pass


class Unkind:
    dimension = 2

    def __init__(self, node):
        pass

    def records(self):
        return [b"1", b"2"]

    def decode(self, value):
        raise Nameless("canary")


class Asked(Unkind):
    @property
    def dimension(self):
        raise Nameless("canary")


class Made(Unkind):
    def __init__(self, node):
        raise Nameless("canary")


class Told(Unkind):
    dimension = "canary"
"""
UNKIND_WORDS = {
    "Asked": "asking for its dimension raised Nameless",
    "Made": "making it raised Nameless",
    "Told": "its dimension is a str: must be the number of features",
}


def test_not_even_the_name_of_what_is_raised_ends_anything(tmp_path, monkeypatch, caplog):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"own_source_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(UNKIND)
    unkind = decoder(loaded(tmp_path, tree(f"{name}:Unkind")), "a")
    assert unkind.decode(b"1") is None
    assert str(unkind.fault(b"1")) == "its source: Nameless"
    assert caplog.text == ""
    for source, words in UNKIND_WORDS.items():
        with pytest.raises(MeshFileError) as caught:
            mesh_parts(loaded(tmp_path, tree(f"{name}:{source}")))
        assert words in caught.value.lines[0]
        assert "canary" not in str(caught.value.lines)
