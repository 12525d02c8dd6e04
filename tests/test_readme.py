"""What the README shows is true."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from streams.mesh_file.file import load
from streams.mesh_file.settings.node import CommonBrokers

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs():
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(
        load(ROOT / "deploy/meshes/tracking.yaml").mesh.nodes
    )
    assert all(line.endswith(" 100") for line in lines)  # charged rounds
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_the_mesh_file_shown_is_the_one_that_ships():
    (shown, brokers) = blocks("yaml")
    ships = yaml.safe_load((ROOT / "deploy/meshes/tracking.yaml").read_text())["mesh"]
    tree = yaml.safe_load(shown)["mesh"]
    assert tree == {key: ships[key] for key in tree}
    CommonBrokers.model_validate(
        yaml.safe_load(brokers)["brokers"], context={"environment": {"MESH_PASSWORD": "secret"}}
    )


def test_every_file_that_is_linked_is_there():
    for name in ("README.md", "experiments/README.md"):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / name).read_text()):
            assert (ROOT / name).parent.joinpath(link).exists(), f"{name}: {link}"


def test_every_folder_of_the_table_is_there():
    folders = re.findall(r"^\| `([a-z/]+/)` \|", README, re.MULTILINE)
    assert len(folders) >= 7
    assert all((ROOT / folder).is_dir() for folder in folders)
