"""The settings of a broker: what they mean, and every mistake one line without a secret in it."""

import pytest
import yaml

from streams.mesh.file import MeshFileError, load
from streams.mesh.settings.brokers import BrokerSettings
from tests.streams.mesh.test_mistakes import BASE
from tests.support.brokers.certificates import Authority, encrypted, weak_pair

HUNTER = "hunter2"
USER = {"username": "ann", "password": HUNTER}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Certificates, keys and passwords, right and wrong."""
    folder = tmp_path_factory.mktemp("brokers")
    certificate, key = Authority(folder).issue(user="ann")
    encrypted(key, HUNTER)
    Authority(folder, "other").issue(user="bob")
    for name, text in {"password": f"{HUNTER}\n", "empty": "\n", "two": f"{HUNTER}\n{HUNTER}\n"}.items():
        (folder / name).write_text(text)
    (folder / "binary").write_bytes(b"\xff\xfe")
    whole = certificate.read_text()
    (folder / "damaged.crt").write_text(whole[:100] + whole[200:])
    (folder / "damaged.key").write_text(key.read_text()[:100] + "\n-----END PRIVATE KEY-----\n")
    (folder / "both.crt").write_text(whole + key.read_text())
    return folder


def loaded(folder, environment=None, **settings):
    """The settings of the mesh's broker, from a mesh file."""
    path = folder / "mesh.yaml"
    tree = {"mesh": BASE["mesh"], "brokers": {"mesh": {"servers": "one:9092", **settings}}}
    path.write_text(yaml.safe_dump(tree))
    return load(path, environment or {}).mesh_broker


@pytest.mark.parametrize(
    ("settings", "security", "protocol"),
    [
        ({}, "plaintext", "PLAINTEXT"),
        (USER, "sasl", "SASL_PLAINTEXT"),
        ({"ca": "ca.crt"}, "tls", "SSL"),
        ({"certificate": "ann.crt", "key": "ann.key"}, "tls", "SSL"),
        ({"security": "tls"}, "tls", "SSL"),
        ({"ca": "ca.crt", **USER}, "sasl-tls", "SASL_SSL"),
        ({"security": "sasl-tls", **USER}, "sasl-tls", "SASL_SSL"),
    ],
)
def test_security_is_what_the_other_keys_mean(folder, settings, security, protocol):
    broker = loaded(folder, **settings)
    assert (broker.security, broker.protocol) == (security, protocol)
    assert broker.trusted is not None


def test_a_secret_comes_from_a_file_or_the_environment_and_is_never_shown(folder):
    for place, environment in (
        ({"password_file": "${WHERE}/password"}, {"WHERE": "."}),
        ({"password": "${MINE}"}, {"MINE": HUNTER}),
    ):
        broker = loaded(folder, environment, username="ann", **place)
        assert broker.password.get_secret_value() == HUNTER
        shown = [repr(broker), str(broker), broker.model_dump_json(), str(broker.model_dump())]
        assert HUNTER not in "".join(shown)


def test_an_encrypted_key_opens_with_its_password(folder):
    pair = {"certificate": "ann.crt", "key": "ann.encrypted.key"}
    for password in ({"key_password": HUNTER}, {"key_password_file": "password"}):
        assert loaded(folder, **pair, **password).key_password.get_secret_value() == HUNTER


PAIR = {"certificate": "ann.crt", "key": "ann.key"}
WRONG = [
    ({"security": "ssl"}, "security: (hidden): must be plaintext, sasl, tls or sasl-tls"),
    ({"username": "ann"}, "password: missing: security sasl needs a password or password_file"),
    ({"security": "sasl-tls"}, "username: missing: security sasl-tls needs a username"),
    ({"password": HUNTER}, "password: (hidden): needs a username"),
    ({"password_file": "password"}, "password: needs a username"),
    ({"security": "tls", **USER}, "username: (hidden): needs security sasl or sasl-tls"),
    ({"mechanism": "plain"}, "mechanism: (hidden): needs a username"),
    ({**USER, "mechanism": "md5"}, "mechanism: (hidden): must be scram-sha-512, scram-sha-256 or plain"),
    ({**USER, "mechanism": "plain"}, "mechanism: (hidden): plain sends the password itself: needs security"),
    ({**USER, "password_file": "password"}, "password_file: (hidden): password is there too"),
    ({**USER, "username": "CN=ann"}, "username: (hidden): must have no , and no =: kafka-python fails on"),
    ({**USER, "password": f" {HUNTER}"}, "password: (hidden): must not begin with a blank: librdkafka dro"),
    ({**USER, "password": ""}, "password: (hidden): is empty: must be the password"),
    ({**USER, "password": "${EMPTY}"}, "password: (hidden): is empty: must be the password"),
    ({**USER, "password": f"{HUNTER}\n"}, "password: (hidden): must be one line"),
    ({**USER, "username": "jürgen"}, "username: (hidden): must be ASCII: no client logs in as another by"),
    ({"username": "ann", "password_file": HUNTER}, "password_file: (hidden): there is no such file in /"),
    ({"username": "ann", "password_file": f"{HUNTER}/{HUNTER}"}, "(hidden): there is no such file: must be"),
    ({"username": "ann", "password_file": HUNTER * 99}, "password_file: (hidden): there is no such file in"),
    ({"username": "ann", HUNTER: None}, "brokers.mesh: (hidden): unknown key: must be one of servers, sec"),
    ({"username": "ann", f"password:{HUNTER}": None}, "brokers.mesh: (hidden): unknown key: must be one of"),
    ({"username": "ann", "password_file": "."}, "cannot be read: Is a directory"),
    ({"username": "ann", "password_file": "empty"}, "/empty: is empty: must hold the password in one line"),
    ({"username": "ann", "password_file": "two"}, "/two: has several lines: must hold the password in one"),
    ({"username": "ann", "password_file": "binary"}, "/binary: is not text: must hold the password in one"),
    ({"username": "ann", "password_file": 3}, "password_file: (hidden): must be the path of a file"),
    ({"security": "plaintext", "ca": "ca.crt"}, "ca: (hidden): needs security tls or sasl-tls"),
    ({"verify_host_name": False}, "verify_host_name: (hidden): needs security tls or sasl-tls"),
    ({"security": "tls", "verify_host_name": "no"}, "verify_host_name: (hidden): must be true or false"),
    ({"ca": "none.crt"}, "/none.crt: cannot be read: No such file or directory"),
    ({"ca": "ann.key"}, "/ann.key: holds a private key: must hold certificates of CAs alone"),
    ({"ca": "both.crt"}, "/both.crt: holds a private key: must hold certificates of CAs alone"),
    ({"ca": "ann.crt"}, "/ann.crt: holds no CA's certificate: must be the CA's, not the broker's or yours"),
    ({"ca": "password"}, "/password: holds no certificate in PEM: must be one in PEM"),
    ({"ca": "damaged.crt"}, "/damaged.crt: a certificate in it is damaged"),
    ({"ca": "-----BEGIN CERTIFICATE-----\nMII"}, "ca: (hidden): must be the path of a file, not what it ho"),
    ({"certificate": "ann.crt"}, "key: missing: certificate needs key"),
    ({"key": "ann.key", "ca": "ca.crt"}, "certificate: missing: key needs certificate"),
    ({"key": "ann.key"}, "key: (hidden): needs security tls or sasl-tls"),
    ({**PAIR, "certificate": "ann.key"}, "/ann.key: holds no certificate but a private key: must be one"),
    ({**PAIR, "key": "ann.crt"}, "/ann.crt: holds no private key but a certificate: must be one in PEM"),
    ({**PAIR, "key": "password"}, "/password: holds no private key in PEM: must be one in PEM"),
    ({**PAIR, "key": "damaged.key"}, "/damaged.key: cannot be read"),
    ({**PAIR, "key": "bob.key"}, "/bob.key: is not the key of "),
    ({**PAIR, "key": "ann.encrypted.key"}, "key_password: missing: the key is encrypted (or key_password_f"),
    ({**PAIR, "key": "ann.encrypted.key", "key_password": "x"}, "cannot be read: is key_password right?"),
    ({**PAIR, "key_password": HUNTER}, "key_password: (hidden): the key is not encrypted: must not be given"),
    ({"security": "tls", "key_password": HUNTER}, "key_password: (hidden): needs a certificate and its key"),
]


@pytest.mark.parametrize(("settings", "said"), WRONG, ids=[f"{k}" for k in range(len(WRONG))])
def test_a_mistake_is_one_line(folder, settings, said):
    with pytest.raises(MeshFileError) as refused:
        loaded(folder, **settings, environment={"EMPTY": ""})
    (line,) = refused.value.lines
    assert line.startswith(f"{folder}/mesh.yaml: brokers.mesh")
    assert said in line
    assert HUNTER not in line.replace(str(folder), "")
    assert "PRIVATE KEY" not in line


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("mesh", "mesh.(hidden): (hidden): unknown key: must be one of name, run"),
        ("brokers", "brokers: (hidden): unknown key: must be one of mesh, data, trust_broker"),
        ("nodes", "nodes.a.(hidden): (hidden): unknown key: must be one of "),
    ],
)
def test_a_password_that_became_a_key_is_not_shown_wherever_it_is(tmp_path, place, said):
    path = tmp_path / "mesh.yaml"
    tree = {"mesh": {**BASE["mesh"]}, "brokers": {"mesh": {"servers": "one:9092"}}, "nodes": {"a": {}}}
    (tree["nodes"]["a"] if place == "nodes" else tree[place])[f"password:{HUNTER}"] = None
    path.write_text(yaml.safe_dump(tree))
    with pytest.raises(MeshFileError) as refused:
        load(path, {})
    assert HUNTER not in str(refused.value)
    assert said in str(refused.value)


def test_by_plain_a_user_may_have_any_letters(folder):
    ours = {**USER, "username": "jürgen", "ca": "ca.crt", "mechanism": "plain"}
    assert loaded(folder, **ours).username == "jürgen"


def test_a_certificate_that_openssl_does_not_take_is_refused_with_its_reason(tmp_path):
    pair, subject = weak_pair(tmp_path), {"certificate": "weak.crt", "key": "weak.key"}
    with pytest.raises(MeshFileError) as refused:
        loaded(tmp_path, **subject)
    (line,) = refused.value.lines
    assert line.endswith(f"{pair.certificate}: OpenSSL refuses it: ee key too small")


def test_a_system_without_certificates_needs_a_ca(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
    with pytest.raises(ValueError, match="this system has no certificates of CAs"):
        BrokerSettings(servers="one:9093", security="tls")
