"""`mirrormesh export`: a folder as a whole, or one line that says why not."""

import pytest

from tests.support.published.exports import IMAGE, SECURED

ASKED = ("export", "kubernetes", "mesh.yaml", "--output", "out", "--image", IMAGE)


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(SECURED)
    return path


def there(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_party_s_folder_is_written_and_said(call, mesh, tmp_path):
    assert call(*ASKED, "--party", "a") == (0, "out: 7 files\n", "")
    assert "node-a.yaml" in there(tmp_path / "out")
    assert call(*ASKED, "--mesh-operator") == (0, "out: 8 files\n", "")
    assert len(there(tmp_path / "out")) == 8
    assert "node-a.yaml" not in there(tmp_path / "out")


def test_no_secret_needs_to_be_here_and_none_is_written(call, mesh, tmp_path, monkeypatch):
    monkeypatch.setenv("MESH_PASSWORD", "never-written")
    assert call(*ASKED, "--party", "a").code == 0
    assert not [path for path in (tmp_path / "out").iterdir() if "never-written" in path.read_text()]


def test_an_image_without_a_digest_is_warned_of(call, mesh):
    told = ("export", "kubernetes", "mesh.yaml", "--output", "out", "--party", "a", "--image", "mirrormesh:1")
    code, out, err = call(*told)
    assert (code, out) == (0, "out: 7 files\n")
    assert err.splitlines() == [
        "--image mirrormesh:1 has no digest: what runs may change without you; name it with @sha256:..."
    ]


def test_a_broker_of_this_machine_or_without_users_is_warned_of(call, mesh):
    mesh.write_text(SECURED.replace("a.example:9095", "127.0.0.1:9095"))
    said = call(*ASKED, "--party", "a").err.splitlines()
    assert said == ["mesh.yaml: 127.0.0.1:9095: a pod looks for this broker in itself"]
    mesh.write_text(SECURED.partition("\nbrokers:")[0] + "\nbrokers: {mesh: {servers: 'b.example:9092'}}\n")
    (said,) = call(*ASKED, "--mesh-operator").err.splitlines()
    assert said.startswith("mesh.yaml: brokers.mesh: names no users")


@pytest.mark.parametrize(
    ("wrong", "by", "more", "said"),
    [
        ("", "", (), "neither is given: must be one of --party NAME and --mesh-operator"),
        (
            "",
            "",
            ("--party", "a", "--mesh-operator"),
            "--party a and --mesh-operator are both given: must be",
        ),
        ("", "", ("--party", "aa"), "--party aa: must be one of a, b, c"),
        ("", "", ("--party", "a", "--broker-cidr", "x"), "--broker-cidr x: must be a network"),
        ("", "", ("--party", "a", "--image", "A B"), "--image A B: must be an image's name"),
        (
            "${DATA_PASSWORD}",
            "hunter2",
            ("--party", "b"),
            "mesh.yaml: nodes.a.brokers.data.password: (hidden): must be ${DATA_PASSWORD}",
        ),
        ("\n  b:", "\n  elsewhere:", ("--party", "b"), "mesh.yaml: nodes.elsewhere: not a node of the mesh"),
        ("b.example:9095", "b.example:no", ("--party", "b"), "mesh.yaml: nodes.b.brokers.data.servers: "),
        ("[a, b, c]", "[a, b, c, a-]", ("--party", "b"), "mesh.yaml: party a and party a- make one"),
        ("[a, b, c]", "[a, b, c, -x]", ("--party", "-x"), 'mesh.yaml: mesh.nodes: "-x": must be made of'),
        ("[a, b, c]", "[a, b, c, d]", ("--party", "d"), "mesh.yaml: nodes.d: missing: must be here"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(call, mesh, tmp_path, wrong, by, more, said):
    mesh.write_text(SECURED.replace(wrong, by, 1) if wrong else SECURED)
    code, out, err = call(*ASKED, *more)
    assert (code, out) == (2, "")
    assert err.startswith(said)
    assert err.count("\n") == 1
    assert "hunter2" not in err
    assert there(tmp_path) == ["mesh.yaml"]


def test_a_folder_with_something_else_in_it_stays_as_it_is(call, mesh, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.yaml").write_text("kept")
    code, _, err = call(*ASKED, "--party", "a")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("--output ")
    assert "holds secret.yaml, which no export wrote" in err
    assert there(tmp_path / "out") == ["secret.yaml"]
