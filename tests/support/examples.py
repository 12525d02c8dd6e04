"""Every example mesh of deploy/meshes, wherever its data come from."""

from collections.abc import Callable
from pathlib import Path

MESHES = Path(__file__).parents[2] / "deploy" / "meshes"
NAMES = sorted(path.stem for path in MESHES.glob("*.yaml"))
ROUNDS = 12
"""So many, where a test runs all of them."""

STAND_INS: dict[str, Callable[[Path], dict[str, str]]] = {}
"""For an example whose data are not shipped: makes data of its kind in a folder, and returns the environment
variables that lead there."""


def example(name, folder, monkeypatch):
    """The path of the mesh file of an example, its data there."""
    if name in STAND_INS:
        for variable, value in STAND_INS[name](folder).items():
            monkeypatch.setenv(variable, value)
    return MESHES / f"{name}.yaml"
