"""Signatures in a mesh file: which keys it must have, and where; every mistake is one line."""

import subprocess
import sys

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from streams.mesh.file import MeshFileError, load
from streams.mesh.signing import knows_writers, node_envelope, scheduler_envelope
from streams.terminal.plan_text import user_facts
from tests.support.commands import Commands
from tests.support.meshes import changed, with_value
from tests.support.signing import private, signed

BROKERS = {
    "mesh": {"servers": "one:9092", "signing_key": "a.key"},
    "data": {"servers": "two:9092"},
}


@pytest.fixture
def call(capsys):
    return Commands(capsys)


def written(folder, tree):
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def key_file(folder, name, mode=0o600):
    path = folder / f"{name}.key"
    path.write_bytes(private(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(mode)
    return path


@pytest.fixture
def tree(tmp_path):
    key_file(tmp_path, "a")
    return signed(changed()) | {"brokers": BROKERS}


def refused(folder, tree):
    with pytest.raises(MeshFileError) as error:
        load(written(folder, tree))
    (line,) = error.value.lines
    return line.removeprefix(f"{folder / 'mesh.yaml'}: ")


def test_a_node_signs_with_its_key_and_its_neighbours_take_it(tmp_path, tree):
    file = load(written(tmp_path, tree))
    value = node_envelope(file, "a").sealed(b"\x01\x03what")
    assert file.resolved.envelope.of_node(value, "a") == b"\x01\x03what"
    assert knows_writers(file, "a")


def test_without_them_nothing_is_signed_and_no_setting_is_agreed(tmp_path):
    plain = load(written(tmp_path, changed() | {"brokers": {"mesh": {"servers": "one:9092"}}}))
    assert "signatures" not in plain.mesh.agreed
    assert not scheduler_envelope(plain).signs
    own = changed() | {"brokers": BROKERS | {"mesh": {"servers": "one:9092"}}}
    assert not knows_writers(load(written(tmp_path, own)), "a")
    own["brokers"]["mesh"] |= {"username": "a", "password": "b"}
    assert knows_writers(load(written(tmp_path, own)), "a")


def test_plan_warns_of_what_signatures_do_not_end(tmp_path, tree):
    said = dict(user_facts(load(written(tmp_path, tree))))["warning"]
    assert said.endswith("one:9092 can replay heartbeats, plans and releases, and flood its topics")


def test_they_need_a_run_of_their_own(tmp_path, tree):
    plain = load(written(tmp_path, changed())).digest()
    with_keys = with_value(tree, "mesh.signatures", "none")
    assert load(written(tmp_path, with_keys)).digest() == plain
    assert load(written(tmp_path, tree)).digest() != plain


def test_the_process_of_another_node_or_of_no_scheduler_is_refused(tmp_path, tree):
    file = load(written(tmp_path, tree))
    for make, whose in (
        (lambda: node_envelope(file, "b"), "the node b"),
        (lambda: scheduler_envelope(file), "a"),
    ):
        with pytest.raises(MeshFileError, match="must be the private key of " + whose):
            make()
    unkeyed = load(written(tmp_path, with_value(tree, "brokers.mesh", {"servers": "one:9092"})))
    with pytest.raises(MeshFileError, match="signing_key: missing: must be the private key of"):
        node_envelope(unkeyed, "a")


MISTAKES = {
    "a node without a key": ("mesh.nodes.b", {}, "mesh.nodes.b.key: missing: signatures are required"),
    "no node with a key": (
        "mesh.nodes",
        list("abcd"),
        "mesh.nodes.key: missing: signatures are required, and a has",
    ),
    "no scheduler": ("mesh.schedulers", {}, "mesh.schedulers: {}: must name the key of a scheduler"),
    "no key": ("mesh.nodes.b", {"key": "b"}, "mesh.nodes.b.key"),
    "half a key": ("mesh.schedulers", {"p": "AAAA"}, "mesh.schedulers.p"),
    "another word": ("mesh.signatures", "always", "mesh.signatures"),
    "a file that is not there": ("brokers.mesh.signing_key", "x.key", "brokers.mesh.signing_key"),
    "a file that is no key": ("brokers.mesh.signing_key", "mesh.yaml", "brokers.mesh.signing_key"),
    "on the data broker": ("brokers.data.signing_key", "a.key", "brokers.data.signing_key"),
}


@pytest.mark.parametrize(("place", "value", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line(tmp_path, tree, place, value, said):
    (tmp_path / "mesh.yaml").touch(0o600)  # as one of them names it as its key
    assert refused(tmp_path, with_value(tree, place, value)).startswith(said)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_private_key_that_others_may_read_is_refused(tmp_path, tree, mode):
    key_file(tmp_path, "a", mode)
    assert "others may read it" in refused(tmp_path, tree)


def test_a_key_is_made_once_for_its_owner_alone(call, tmp_path, tree):
    path = tmp_path / "new.key"
    first, second = call("key", path), call("key", path)
    assert first.code == 0
    assert first.out == second.out
    assert path.stat().st_mode & 0o777 == 0o600
    public = first.out.removeprefix("key: ").strip()
    keyed = with_value(with_value(tree, "mesh.nodes.a.key", public), "brokers.mesh.signing_key", "new.key")
    assert node_envelope(load(written(tmp_path, keyed)), "a").signs


def test_a_file_that_holds_something_else_is_not_overwritten(call, tmp_path):
    path = tmp_path / "mine"
    path.write_text("mine")
    path.chmod(0o600)
    outcome = call("key", path)
    assert (outcome.code, outcome.out) == (2, "")
    assert path.read_text() == "mine"


def test_without_signatures_the_library_of_keys_is_not_loaded(tmp_path):
    path = written(tmp_path, changed())
    code = (
        "import sys; from pathlib import Path; from streams.mesh.file import load;"
        f"load(Path({str(path)!r})).resolved.node('a').surroundings;"
        "import streams.live.node_shell, streams.live.scheduler_shell, streams.local.mesh;"
        "sys.exit(any(name.split('.')[0] == 'cryptography' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
