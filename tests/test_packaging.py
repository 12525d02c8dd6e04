"""What is shipped: one distribution, four packages with types, and a wheel that works anywhere."""

import hashlib
import json
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

from tests.support.processes.programs import need

ROOT = Path(__file__).parents[1]
PACKAGES = ("mirrormesh", "nodes", "streams", "topology")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_no_other_distribution_owns_our_names():
    owners = packages_distributions()
    for name in PACKAGES:
        assert set(owners.get(name, [])) <= {"mirrormesh"}, f"{name} is also in {owners[name]}"


def test_the_wheel_holds_the_packages_their_types_and_the_example_meshes(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    for name in PACKAGES:
        assert {f"{name}/__init__.py", f"{name}/py.typed"} <= held
    examples = {
        f"streams/meshes/{path.relative_to(ROOT / 'deploy' / 'meshes')}"
        for path in (ROOT / "deploy" / "meshes").rglob("*")
        if path.is_file()
    }
    assert "streams/meshes/tracking.yaml" in examples
    assert examples <= held
    broker = {path.name for path in (ROOT / "deploy" / "broker").iterdir()}
    assert "pom.xml" in broker
    assert {f"streams/deploy_broker/{name}" for name in broker} <= held
    alerts = ("rules.yaml", "rules-owner.yaml", "runbooks.md")
    assert {f"streams/deploy_prometheus/{name}" for name in alerts} <= held
    for path in (ROOT / "deploy" / "systemd").iterdir():
        assert f"streams/deploy_systemd/{path.name}" in held
    for path in (ROOT / "grafana").rglob("*.*"):
        if path.suffix in {".json", ".yaml"} and path.parent.name != "pictures":
            assert f"streams/grafana/{path.relative_to(ROOT / 'grafana')}" in held
    about = wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
    assert {path.split("/")[0] for path in held} == {*PACKAGES, about}


def test_the_wheel_holds_every_module_and_nothing_of_the_tests(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    assert modules <= held
    assert not [path for path in held if path.endswith(".py") and path not in modules]


@pytest.mark.slow
def test_a_release_is_built_checked_and_its_wheel_passes_the_demo_in_an_empty_environment(tmp_path):
    need("bash", "dirname", "mktemp", "realpath", "rm", "sha256sum")
    dist = tmp_path / "dist"
    done = subprocess.run(
        [ROOT / "deploy" / "release.sh", dist], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "What privacy costs" in done.stdout
    assert "Traceback" not in done.stderr
    stem = f"mirrormesh-{version('mirrormesh')}"
    parts = [f"{stem}-py3-none-any.whl", f"{stem}.sbom.json", f"{stem}.tar.gz"]
    assert sorted(path.name for path in dist.iterdir()) == ["SHA256SUMS", *parts]
    sums = dict(reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in parts}
    components = {part["name"].lower() for part in json.loads((dist / parts[1]).read_text())["components"]}
    assert {"faust-streaming", "kafka-python", "numpy", "prometheus_client", "pydantic"} <= components
    assert "pytest" not in components
