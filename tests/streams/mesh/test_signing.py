"""Signatures in a mesh file: which keys it must have, and where; every mistake is one line."""

import subprocess
import sys
from base64 import b64encode

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from streams.mesh.file import MeshFileError, knows_writers, load, node_envelope, scheduler_envelope
from streams.terminal.plan_text import user_facts
from tests.support.meshes.files import changed, with_value
from tests.support.meshes.keys import private, signed
from tests.support.processes.in_process import Commands

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
        f"load(Path({str(path)!r})).resolved.node('a').context;"
        "import streams.live.node_role, streams.live.scheduler_role, streams.local.mesh;"
        "sys.exit(any(name.split('.')[0] == 'cryptography' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def added(one, other):
    """The sum of two points of the curve, by its equation (RFC 8032)."""
    (a, b), (c, d) = one, other
    product = D * a * b * c * d
    x = (a * d + b * c) * pow(1 + product, -1, P)
    return x % P, (b * d + a * c) * pow(1 - product, -1, P) % P


def times(number, point):
    """The point added so often."""
    total = (0, 1)
    for digit in f"{number:b}":
        total = added(total, total)
        total = added(total, point) if digit == "1" else total
    return total


def point_of(y):
    """A point with that y; None: there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    roots = (x, x * pow(2, (P - 1) // 4, P) % P)
    return next(((root, y) for root in roots if root * root % P == square), None)


def weak_keys():
    """Every encoding of every point whose order divides 8."""
    points = [found for found in map(point_of, range(2, 60)) if found is not None]
    weak = {times(ORDER, point) for point in points}
    weak = {added(one, other) for one in weak for other in weak}
    assert len(weak) == 8
    ys = {y + more for _, y in weak for more in (0, P) if y + more < 2**255}
    return sorted((y | sign << 255).to_bytes(32, "little") for y in ys for sign in (0, 1))


@pytest.mark.parametrize("key", weak_keys(), ids=bytes.hex)
@pytest.mark.parametrize("where", ["mesh.nodes.b.key", "mesh.schedulers.planner"])
def test_a_key_under_which_anybody_can_sign_is_refused(tmp_path, tree, key, where):
    line = refused(tmp_path, with_value(tree, where, b64encode(key).decode()))
    assert line.startswith(f"{where}: ")
    assert "is a key under which anybody can sign: must be a public key" in line


def test_who_has_no_key_signs_under_one_of_them():
    """So it is no mere matter of form."""
    neutral = (1).to_bytes(32, "little")
    Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), b"whatever it says")
