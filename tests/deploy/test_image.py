"""The image: what is in it, what is not, and that it runs on a root that is read-only."""

import json
import re
import subprocess
from importlib.metadata import distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from streams.mesh.shipped import example_mesh
from tests.support.published.containers import Container, Network
from tests.support.published.images import BASE, ENVIRONMENT
from tests.support.published.pages import ROOT, joined, page

pytestmark = [pytest.mark.image, pytest.mark.slow]

PAGE = "docs/howto/containers.md"
FOLDERS = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", f"{ENVIRONMENT}/bin")
UNWANTED = r"(.*-)?(gcc|g\+\+|cc|c\+\+|clang|ld|as|make|java|pip|apt|curl|wget)(-?[\d.]+)?"


@pytest.fixture(scope="module")
def container(image):
    """One without volumes, and with the image's own environment."""
    with Network() as network:
        yield Container(image.root, network, image.environment, folder=image.config["WorkingDir"])


def installed(image):
    """The distributions in the image: {name: version}."""
    found = distributions(path=[str(image.packages)])
    return {canonicalize_name(one.name): one.version for one in found}


def test_it_says_what_it_is_and_how_it_is_run(image):
    config = image.config
    assert (config["User"], config["StopSignal"]) == ("10001:10001", "SIGTERM")
    assert (config["Entrypoint"], config["Cmd"]) == (["mirrormesh"], ["--help"])
    assert set(image.environment) == {"PATH", "PYTHONDONTWRITEBYTECODE", "OMP_NUM_THREADS"}
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    assert (labels["title"], labels["licenses"], labels["base.name"]) == ("mirrormesh", "Apache-2.0", BASE)
    assert labels["version"] == installed(image)["mirrormesh"]
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", labels["revision"])


def test_it_is_one_layer_above_its_base_and_of_the_size_that_the_documentation_says(image):
    base, ours = (round(size / 1e6) for size in image.layers)
    said = re.search(r"On a base of (\d+) MB it has one more layer, of (\d+) MB", joined(page(PAGE)))
    assert abs(base - int(said[1])) <= 0.1 * base, image.layers
    assert abs(ours - int(said[2])) <= 0.1 * ours, image.layers


def test_it_has_no_compiler_no_java_and_nothing_that_installs(image):
    programs = [path.name for folder in FOLDERS for path in (image.root / folder).glob("*")]
    assert {"sh", "python3", "mirrormesh"} <= set(programs)
    assert [name for name in programs if re.fullmatch(UNWANTED, name)] == []
    assert not {"pip", "setuptools", "hatchling", "pytest"} & set(installed(image))
    assert not [*image.root.glob("etc/pip*"), *image.root.glob("root/.cache"), *image.root.glob("wheels")]


def test_it_has_the_versions_of_the_lock_and_nothing_else(image):
    python = image.packages.parent.name.removeprefix("python")
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pinned = [Requirement(line) for line in lines if not line.startswith("#")]
    lock = {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==")
        for one in pinned
        if one.marker is None or one.marker.evaluate({"python_version": python})
    }
    here = {name: version for name, version in installed(image).items() if name != "mirrormesh"}
    extras = {"pyarrow", "dp-accounting", "fastavro"}
    assert {"numpy", "faust-streaming", "confluent-kafka", *extras} <= set(here)
    assert {name: version for name, version in here.items() if lock.get(name) != version} == {}


def test_its_list_of_parts_is_what_is_installed(image):
    parts = json.loads((image.root / ENVIRONMENT / "sbom.json").read_text())
    assert parts["bomFormat"] == "CycloneDX"
    listed = {canonicalize_name(part["name"]): part["version"] for part in parts["components"]}
    assert {"mirrormesh": installed(image)["mirrormesh"], **listed} == installed(image)
    assert parts["metadata"]["component"]["name"] == "mirrormesh"
    licensed = [part["name"] for part in parts["components"] if part.get("licenses")]
    assert len(licensed) > 0.9 * len(listed)
    assert "://" not in json.dumps(
        [part.get("externalReferences", []) for part in parts["components"] if part["name"] == "mirrormesh"]
    )


def test_every_file_of_ours_bears_the_time_of_the_commit(image):
    asked = ["git", "log", "-1", "--format=%ct", image.config["Labels"]["org.opencontainers.image.revision"]]
    committed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    times = {int(path.lstat().st_mtime) for path in (image.root / ENVIRONMENT).rglob("*")}
    assert times == {int(committed)}


def test_a_process_is_user_10001_and_writes_nowhere(container):
    code, said = container.run("sh", "-c", "id -u; id -g; id -G; touch /var/lib/mirrormesh/a /tmp/a /opt/a")
    assert (code, said.splitlines()[:3]) == (1, ["10001", "10001", "10001"])
    assert said.count("Read-only file system") == 3


@pytest.mark.parametrize("words", ["--version", "node --help", "scheduler --help", "provision --help"])
def test_its_commands_answer(container, words):
    code, said = container.run("mirrormesh", *words.split())
    assert (code, "Traceback" in said) == (0, False), said


def test_a_whole_mesh_runs_on_a_read_only_root(container):
    code, said = container.run("mirrormesh", "init", "--example", "income-gaussian", "/nowhere/mesh.yaml")
    assert code != 0
    assert "Traceback" not in said
    packed = f"/{ENVIRONMENT}/lib/{next((container.root / ENVIRONMENT / 'lib').iterdir()).name}/site-packages"
    mesh = f"{packed}/streams/meshes/{example_mesh('income-gaussian.yaml').name}"
    code, said = container.run("mirrormesh", "run", mesh, "--rounds", "3")
    assert code == 0, said
    assert "epsilon" in said


def test_a_volume_that_is_made_new_is_its_user_s(image):
    folder = (image.root / "var/lib/mirrormesh").stat()
    assert (folder.st_uid, folder.st_gid) == (10001, 10001)
