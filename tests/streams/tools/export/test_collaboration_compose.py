"""What `export compose` writes for a collaboration's parties."""

import pytest
import yaml

from streams.collaboration.file import load_collaboration
from streams.tools.export.compose import participant as exported
from streams.tools.export.raw_mesh import participant, read_any
from tests.support.published.exports import IMAGE, compose_says, star_file
from tests.support.published.page_blocks import parse


@pytest.fixture
def made(tmp_path):
    """`made("bank-a")`: the files of a party."""
    raw = read_any(star_file(tmp_path))
    return lambda name: exported(raw, participant(raw.file.mesh, name), IMAGE)


def service(written, name):
    return yaml.safe_load(written["compose.yaml"])["services"][name]


@pytest.mark.parametrize("name", ["bank-a", "bank-t", "analyst"])
def test_compose_takes_it_and_would_not_take_a_mistake(made, tmp_path, name):
    pytest.importorskip("check_jsonschema")

    text = made(name)["compose.yaml"]
    assert compose_says(tmp_path, text) == 0
    assert compose_says(tmp_path, text.replace("    read_only:", "    read_onlyy:")) == 1


@pytest.mark.parametrize(
    ("name", "process", "probed"),
    [
        ("bank-a", "owner-bank-a", 9101),
        ("bank-t", "owner-bank-t", 9101),
        ("analyst", "learner-analyst", 9100),
    ],
)
def test_a_process_is_our_command_and_as_little_as_it_needs(made, name, process, probed):
    written = made(name)
    assert set(yaml.safe_load(written["compose.yaml"])["services"]) == {process, "prometheus", "grafana"}
    one = service(written, process)
    parse(one["command"])
    assert one["command"][0] == process.partition("-")[0]
    assert (one["read_only"], one["cap_drop"], one["restart"]) == (True, ["ALL"], "on-failure")
    assert one["security_opt"] == ["no-new-privileges:true"]
    assert f"{process}:/var/lib/mirrormesh" in one["volumes"]
    assert f"'http://127.0.0.1:{probed}/livez'" in one["healthcheck"]["test"][-1]


def test_prometheus_asks_an_owner_twice_and_the_learner_once(made):
    def asked(name):
        written = made(name)
        (scraped,) = yaml.safe_load(written["prometheus/prometheus.yaml"])["scrape_configs"]
        return scraped["static_configs"][0]["targets"], "prometheus/rules-owner.yaml" in written

    assert asked("bank-a") == (["owner-bank-a:9100", "owner-bank-a:9101"], True)
    assert asked("analyst") == (["learner-analyst:9100"], False)


def test_the_set_is_mounted_where_the_mesh_file_says_and_named_at_the_top(made):
    written = made("bank-a")
    (mounted,) = [one for one in service(written, "owner-bank-a")["volumes"] if isinstance(one, dict)]
    assert (mounted["read_only"], mounted["bind"]) == (True, {"create_host_path": False})
    tree = yaml.safe_load(written["mesh/owner-bank-a.yaml"])
    assert tree["owners"]["bank-a"]["source"]["path"] == mounted["target"]
    assert mounted["source"] == "${MIRRORMESH_SETS:-../sets}/owner-bank-a/bank-a.csv.gz"
    assert f"#     {mounted['source']}\n" in written["compose.yaml"]
    assert not [one for one in service(made("bank-t"), "owner-bank-t")["volumes"] if isinstance(one, dict)]


def test_a_set_s_name_is_no_variable_of_compose(tmp_path):
    path = star_file(tmp_path)
    path.write_text(path.read_text().replace("bank-a.csv.gz", "bank $a.csv.gz"))
    raw = read_any(path)
    written = exported(raw, participant(raw.file.mesh, "bank-a"), IMAGE)
    (mounted,) = [one for one in service(written, "owner-bank-a")["volumes"] if isinstance(one, dict)]
    assert mounted["target"].endswith("/bank $$a.csv.gz")
    assert mounted["source"].endswith("/bank $$a.csv.gz")


@pytest.mark.parametrize("name", ["bank-a", "bank-t", "analyst"])
def test_a_process_s_mesh_file_loads_with_its_secrets(made, tmp_path, name):
    (path,) = [path for path in made(name) if path.startswith("mesh/")]
    secrets = [one["target"] for one in service(made(name), path[5:-5])["secrets"]]
    assert len(secrets) == (2 if name == "bank-t" else 1)
    for secret in secrets:
        (tmp_path / secret.rpartition("/")[2]).write_text("known\n")
    (tmp_path / "there.yaml").write_text(made(name)[path].replace("/run/secrets", str(tmp_path)))
    loaded = load_collaboration(tmp_path / "there.yaml")
    assert (loaded.mesh_broker.username, loaded.mesh_broker.password.get_secret_value()) == (name, "known")
    assert loaded.digest() == read_any(tmp_path / "mesh.yaml").file.digest()


def test_nothing_of_another_party_is_in_it(made):
    for name in ("bank-a", "analyst"):
        text = "".join(text for path, text in made(name).items() if not path.startswith("grafana/"))
        others = {"analyst", "bank-a", "bank-b", "bank-t"} - {name}
        for other in others:
            assert f"username: {other}" not in text
            assert f"{other}.csv" not in text
        assert "bank-t.example" not in text
