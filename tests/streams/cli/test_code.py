"""Loading a mesh file runs no code: every command, with a loss and a source that write a file."""

import json
import sys
from itertools import count

import pytest
import yaml
from typer.main import get_command

from streams.cli.command_line import app
from streams.mesh.file import load
from streams.runtime.process import Stop
from streams.tools.up.programs import Options, feeders, nodes, scheduler
from tests.support.meshes.files import changed
from tests.support.published.exports import IMAGE

NUMBERS = count()
CODE = """
from pathlib import Path

import numpy as np


def wrote(word):
    with (Path(__file__).parent / "wrote").open("a") as file:
        file.write(word + " ")


class Loss:
    def __init__(self):
        wrote("loss")

    def value(self, decision, observations):
        return np.zeros(observations.labels.shape)

    def gradients(self, decision, observations):
        return np.zeros((*observations.labels.shape, decision.shape[-1]))


class Source:
    dimension = 2

    def __init__(self, node):
        wrote("source")

    def records(self):
        return [b"1"] * 40

    def decode(self, value):
        return (1.0, 2.0), 1.0


wrote("import")
"""
NO_FILE = {
    ("demo",),
    ("init",),
    ("key",),
    ("schema",),
    ("broker", "start"),
    ("broker", "stop"),
    ("broker", "status"),
    ("broker", "certificate"),
}
"""The commands that read no mesh file."""
MAKING = {"run", "simulate", "check", "tune", "node", "up", "feed", "predict", "score", "forecast"}
"""The commands that make losses or sources that may run."""
NEEDING = MAKING - {"check", "score", "forecast"} | {"export"}
"""Those that refuse a name that may not run: what they do or write would not work without it."""
MODEL = {
    "format": 1,
    "mesh": "tracking",
    "run": "run-1",
    "round": 1,
    "nodes": 3,
    "rounds": 1,
    "averaged": "x",
    "algorithm": "dpdo-nc",
    "dimension": 2,
    "source": None,
    "newest": [1.0, 1.0],
    "average": [1.0, 1.0],
    "guarantee": {"adjacency": "event", "epsilon": None, "delta": 0.0, "nodes": {}},
}
VALUES = {
    "mesh": ["mesh.yaml"],
    "state": ["--state", "state"],
    "output": ["--output", "out"],
    "image": ["--image", IMAGE],
    "model": ["model.json"],
    "records": ["rows.csv"],
    "source": ["--input", "in"],
    "name": ["a"],
    "node": ["a"],
    "names": ["a"],
}
MORE = {
    ("predict",): [["rows.csv", "--mesh", "mesh.yaml", "c"]],
    ("score",): [
        ["mesh.yaml", "a"],
        ["mesh.yaml", "c"],
        ["mesh.yaml", "c", "--model", "model.json"],
        ["--model", "model.json", "--servers", "127.0.0.1:1"],
    ],
    ("plan",): [[], ["--estimate"]],
    ("tune",): [["--pilot", "rows.csv"], ["--synthetic"]],
    ("forecast",): [[], ["--pilot", "rows.csv"]],
    ("end",): [["--yes"]],
    ("watch",): [["--once"]],
    ("provision",): [[], ["--check"], ["--users"]],
    ("export", "kubernetes"): [["--party", "us"], ["--mesh-operator"]],
    ("export", "systemd"): [["--party", "us"], ["--mesh-operator"]],
    ("export", "compose"): [["--party", "us"], ["--mesh-operator"]],
}
"""The options without which a command ends before it does anything."""


def leaves(command, path=()):
    """The path and the parameters of each command that is no group."""
    if not hasattr(command, "commands"):
        yield path, command.params
        return
    for name in command.commands:
        yield from leaves(command.commands[name], (*path, name))


ALL = dict(leaves(get_command(app)))
READING = [path for path in ALL if path not in NO_FILE]


def arguments(path):
    """Arguments for a command, one list for each way to call it; KeyError for a new one without values."""
    given = [word for one in ALL[path] if one.required for word in VALUES[one.name]]
    given += ["a"] if path == ("node",) else []
    return [[*path, *given, *more] for more in MORE.get(path, [[]])]


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A module whose import, loss and source each write a word; and no command waits for a broker."""
    name = f"code_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.2)
    entered = Stop.__enter__

    def asked_at_once(stop):
        entered(stop).asked.set()
        return stop

    monkeypatch.setattr(Stop, "__enter__", asked_at_once)
    yield name
    sys.modules.pop(name, None)


def write_mesh(folder, loss, source, brokers):
    tree = changed(
        nodes=["a", "b", "c"], loss={"own": loss}, rounds=10, parties={"us": {"nodes": ["a", "b", "c"]}}
    )
    (folder / "rows.csv").write_text("x,y,z\n" + "1,2,3\n" * 40)
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    own, rows = {"kind": "own", "name": source}, {"kind": "csv", "path": "rows.csv", "schema": schema}
    tree["nodes"] = {"a": {"source": own}, "b": {"source": own}, "c": {"source": rows}}
    if brokers:
        dead = {"servers": "127.0.0.1:1"}
        tree["brokers"] = {"mesh": dead, "data": dead, "trust_broker": True}
    (folder / "mesh.yaml").write_text(yaml.safe_dump(tree))
    (folder / "model.json").write_text(json.dumps(MODEL | {"loss": {"own": loss}}))
    (folder / "state").mkdir(exist_ok=True)
    load(folder / "mesh.yaml")  # it has no mistake: no command refuses it for another one


def test_the_commands_without_a_mesh_file_are_those():
    assert {path for path, params in ALL.items() if "mesh" not in [one.name for one in params]} == NO_FILE


@pytest.mark.parametrize("brokers", [False, True])
@pytest.mark.parametrize("path", READING, ids=" ".join)
def test_no_command_runs_what_a_file_names(call, code, tmp_path, path, brokers):
    write_mesh(tmp_path, f"{code}:Loss", f"{code}:Source", brokers)
    for given in arguments(path):
        outcome = call(*given)
        assert not (tmp_path / "wrote").exists(), outcome
        assert "Traceback" not in outcome.err


@pytest.mark.parametrize("path", READING, ids=" ".join)
def test_only_commands_that_learn_or_read_records_make_entry_points(call, code, tmp_path, path):
    about = tmp_path / f"{code}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {code}\nVersion: 1.0\n")
    groups = {"losses": "Loss", "sources": "Source"}
    text = "".join(f"[mirrormesh.{group}]\n{code} = {code}:{what}\n" for group, what in groups.items())
    (about / "entry_points.txt").write_text(text)
    write_mesh(tmp_path, code, code, brokers=True)
    if path[0] in MAKING:
        return
    for given in arguments(path):
        outcome = call(*given)
        assert not (tmp_path / "wrote").exists(), outcome


def allowing(*names):
    return [word for name in names for word in ("--code", name)]


@pytest.mark.parametrize("path", [path for path in READING if path[0] in NEEDING], ids=" ".join)
def test_who_needs_a_name_that_is_not_allowed_says_which_option_allows_it(call, code, tmp_path, path):
    loss, source = f"{code}:Loss", f"{code}:Source"
    write_mesh(tmp_path, loss, source, brokers=True)
    (given, *_) = arguments(path)
    outcome = call(*given)
    kinds = [("mesh.loss.own", loss, "losses"), ("nodes.a.source.name", source, "sources")]
    lines = {
        f'mesh.yaml: {key}: "{name}": code that no file may allow: give --code {name}, or name an entry '
        f"point of mirrormesh.{group}"
        for key, name, group in kinds
    }
    said = [line.removesuffix(" (the same in b)") for line in outcome.err.splitlines()]
    assert (outcome.code, outcome.out) == (2, "")
    assert said
    assert set(said) <= lines


@pytest.mark.parametrize("command", ["run", "simulate", "check"])
def test_a_name_that_the_command_line_allows_runs(call, code, tmp_path, command):
    write_mesh(tmp_path, f"{code}:Loss", f"{code}:Source", brokers=False)
    more = ["--histories", "1"] if command == "simulate" else []
    outcome = call(command, "mesh.yaml", *more, *allowing(f"{code}:Loss", f"{code}:Source"))
    assert (outcome.code, outcome.err) == (0, "")
    assert set((tmp_path / "wrote").read_text().split()) == {"import", "loss", "source"}


def test_check_says_in_one_line_what_it_has_left_out(call, code, tmp_path):
    loss, source = f"{code}:Loss", f"{code}:Source"
    write_mesh(tmp_path, loss, source, brokers=False)
    for names, line in (
        ((loss, source), None),
        ((loss,), f"{source}. To run it: --code {source}"),
        ((), f"{loss}, {source}. To run it: --code {loss} --code {source}"),
    ):
        outcome = call("check", "mesh.yaml", *allowing(*names))
        lines = [one for one in outcome.out.splitlines() if "Left out" in one]
        assert (outcome.code, outcome.err) == (0, "")
        assert lines == ([] if line is None else [f"Left out, as a file may not allow its own code: {line}"])


def test_tune_learns_with_an_allowed_loss_and_says_which_source_it_has_left_out(call, code, tmp_path):
    loss, source = f"{code}:Loss", f"{code}:Source"
    write_mesh(tmp_path, loss, source, brokers=False)
    (tmp_path / "public.csv").write_text("x,y,z\n" + "".join(f"{k},2,7\n" for k in range(9)))
    tune = ("tune", "mesh.yaml", "--pilot", "public.csv", "--records", "9", "--runs", "8")
    outcome = call(*tune, "--code", loss)
    assert (outcome.code, outcome.err) == (1, "")  # it learns nothing, and no setting is better than guessing
    assert f"Left out, as a file may not allow its own code: {source}. To" in outcome.out.splitlines()[0]
    assert set((tmp_path / "wrote").read_text().split()) == {"import", "loss"}
    outcome = call(*tune, *allowing(loss, source))
    assert "Left out" not in outcome.out
    assert "source" in (tmp_path / "wrote").read_text().split()


@pytest.mark.parametrize("command", ["run", "node", "up", "check"])
def test_only_module_and_attribute_can_be_allowed(call, code, tmp_path, command):
    write_mesh(tmp_path, f"{code}:Loss", f"{code}:Source", brokers=False)
    ((*given,),) = arguments((command,))
    outcome = call(*given, "--code", code)
    said = (
        f"--code '{code}': must be module:attribute, as the mesh file has it; entry points need no --code\n"
    )
    assert outcome == (2, "", said)


def test_what_is_exported_is_allowed_what_it_needs(call, code, tmp_path):
    loss, source = f"{code}:Loss", f"{code}:Source"
    write_mesh(tmp_path, loss, source, brokers=True)
    for kind, more in (("kubernetes", ["--image", IMAGE]), ("systemd", []), ("compose", ["--image", IMAGE])):
        allowed = allowing(loss, source, "another:Thing")
        outcome = call("export", kind, "mesh.yaml", "--output", kind, "--party", "us", *more, *allowed)
        assert outcome.code == 0, outcome
        texts = [path.read_text() for path in (tmp_path / kind).rglob("*") if path.is_file()]
        counts = [
            sum(text.count(f"--code={name}") for text in texts) for name in (loss, source, "another:Thing")
        ]
        assert counts == [4, 2, 0]  # node c reads a file, so it has a feeder too
    assert not (tmp_path / "wrote").exists()


def test_up_hands_on_what_is_allowed(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loss, source = f"{code}:Loss", f"{code}:Source"
    write_mesh(tmp_path, loss, source, brokers=True)
    file, options = load(tmp_path / "mesh.yaml", code=[loss, source]), Options(tmp_path / "state")
    made = [program for _, program in nodes(file, options, None)] + [
        one for _, one in feeders(file, options, None)
    ]
    assert len(made) == 6
    for program in made:
        assert {f"--code={loss}", f"--code={source}"} < set(program.arguments)
    assert not any("--code" in word for word in scheduler(file, None).arguments)


def test_which_loss_is_used_is_agreed_by_its_name_whoever_allows_it(code, tmp_path):
    digests = set()
    for name in ("Loss", "Loss", "Other"):
        write_mesh(tmp_path, f"{code}:{name}", f"{code}:Source", brokers=False)
        for allowed in ((), (f"{code}:{name}",)):
            digests.add((name, load(tmp_path / "mesh.yaml", code=allowed).digest()))
    assert len(digests) == len({digest for _, digest in digests}) == 2
