"""The interface for programs: load a mesh file, run it, and use what it learnt.

Names are imported on first use. The inner packages (`streams`, `nodes`, `topology`) may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodes.engine import Engine, Step
    from nodes.losses.check_loss import check_loss
    from nodes.values import Observations
    from streams.local.recorder import NodeHistory
    from streams.local.run import Outcome, run
    from streams.local.summary import Summary
    from streams.mesh.errors import MeshFileError
    from streams.mesh.examples import example_mesh, examples
    from streams.mesh.file import MeshFile, load, promise
    from streams.mesh.model_file import Model, read_model
    from streams.public.account import Account
    from streams.public.standings import budget
    from streams.tools.model.predicting import Predictions, predict
    from streams.tools.model.writing import run_model, write_model
    from streams.tools.tuning.forecasting import Worth, forecast

__all__ = [
    "Account",
    "Engine",
    "MeshFile",
    "MeshFileError",
    "Model",
    "NodeHistory",
    "Observations",
    "Outcome",
    "Predictions",
    "Step",
    "Summary",
    "Worth",
    "budget",
    "check_loss",
    "example_mesh",
    "examples",
    "forecast",
    "load",
    "predict",
    "promise",
    "read_model",
    "run",
    "run_model",
    "write_model",
]

_MODULES = {
    "nodes.engine": ("Engine", "Step"),
    "nodes.losses.check_loss": ("check_loss",),
    "nodes.values": ("Observations",),
    "streams.local.recorder": ("NodeHistory",),
    "streams.local.run": ("Outcome", "run"),
    "streams.local.summary": ("Summary",),
    "streams.mesh.errors": ("MeshFileError",),
    "streams.mesh.examples": ("example_mesh", "examples"),
    "streams.mesh.file": ("MeshFile", "load", "promise"),
    "streams.mesh.model_file": ("Model", "read_model"),
    "streams.public.account": ("Account",),
    "streams.public.standings": ("budget",),
    "streams.tools.model.writing": ("run_model", "write_model"),
    "streams.tools.tuning.forecasting": ("Worth", "forecast"),
    "streams.tools.model.predicting": ("Predictions", "predict"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mirrormesh' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
