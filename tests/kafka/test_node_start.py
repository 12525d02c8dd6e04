"""A node's start goes as the page draws it: its steps in their order, and nobody else calls back."""

import re
import subprocess
import sys
import tomllib

import pytest

from streams.cli import main
from streams.mesh.file import load
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.published.pages import ROOT, page

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGE = page("docs/explanation/node-start.md")


def rows(heading):
    """The cells in code of each row of a section's table."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [re.findall(r"`([^`]+)`", line) for line in section.splitlines() if re.match(r"\| [\d`]", line)]


def rooms():
    """The rooms of `streams` from top to bottom, and the packages below."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [found["layers"] for found in contracts if found.get("containers") == ["streams"]]
    return [*(f"streams/{room}" for room in layers), "nodes", "topology"]


ROOMS = rooms()


def height(path):
    """How far down the room of a file lies."""
    return next(k for k, room in enumerate(ROOMS) if path.removesuffix(".py").startswith(room))


@pytest.fixture(scope="module")
def calls(broker, tmp_path_factory):
    """The calls from file to file of a start: (file, function, caller's file)."""
    folder = tmp_path_factory.mktemp("start")
    path = small_mesh_file(folder, broker.address, name="drawn")
    with pytest.raises(SystemExit):
        main(["provision", str(path)])
    (folder / "state").mkdir()
    command = [
        sys.executable,
        "-m",
        "tests.support.processes.traced_start",
        "node",
        str(path),
        next(iter(load(path).mesh.nodes)),
    ]
    done = subprocess.run(
        [*command, "--state", str(folder / "state")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(line.split()) for line in done.stdout.splitlines()]


def test_the_steps_are_called_in_the_order_of_the_page(calls):
    places = {}
    for place, (path, function, _) in enumerate(calls):
        places.setdefault((path, function), place)
    steps = [(path, function) for function, path, *_ in rows("The steps")]
    assert len(steps) == 14
    missing = [step for step in steps if step not in places]
    assert missing == []
    assert steps == sorted(steps, key=places.get)


def test_a_lower_file_calls_a_higher_one_only_where_the_page_says_so(calls):
    """A generator that is handed down is its owner's own code."""
    climbs = {
        (source, path)
        for path, function, source in calls
        if source != "-" and height(path) < height(source) and "<genexpr>" not in function
    }
    assert climbs <= {(lower, higher) for lower, higher, *_ in rows("Who calls back")}
    assert ("streams/runtime/runner.py", "streams/live/node_role.py") in climbs
