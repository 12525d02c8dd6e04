"""Every example of deploy/meshes, wherever its data come from: meshes of nodes, and collaborations."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.meshes import reuters

MESHES = Path(__file__).parents[3] / "deploy" / "meshes"
_FILES = dict(sorted((path.stem, path.read_text()) for path in MESHES.glob("*.yaml")))
NAMES = [name for name, text in _FILES.items() if "\n  kind: collaboration\n" not in text]
"""Those of nodes."""
COLLABORATIONS = [name for name in _FILES if name not in NAMES]
ROUNDS = 12
"""So many, where a test runs all of them."""

STAND_INS: dict[str, Callable[[Path], dict[str, str]]] = {"money-fx": reuters.stand_in}
"""For an example whose data are not shipped: makes data of its kind in a folder, and returns the environment
variables that lead there."""
EACH = [pytest.param(name, marks=pytest.mark.slow) if name in STAND_INS else name for name in NAMES]
"""The names as parameters; those with stand-ins are slow."""


def example(name, folder, monkeypatch):
    """The path of the mesh file of an example, its data there."""
    if name in STAND_INS:
        for variable, value in STAND_INS[name](folder).items():
            monkeypatch.setenv(variable, value)
    return MESHES / f"{name}.yaml"
