"""The interface for programs: load a mesh file, run it, and use what it learnt.

Names are imported on first use. The inner packages (`streams`, `nodes`, `topology`) may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodes.learner import Engine, Step
    from nodes.losses.check_loss import check_loss
    from nodes.values import Observations
    from streams.collaboration.file import CollaborationFile, load_collaboration
    from streams.collaboration.outcome import CollaborationOutcome
    from streams.ledger import Promise, promise
    from streams.live.data.letters import unread_records
    from streams.local.recorder import NodeHistory
    from streams.local.results import Summary
    from streams.local.run import Outcome
    from streams.mesh.errors import MeshFileError, UsageError
    from streams.mesh.file import MeshFile, load
    from streams.mesh.model_file import Model, read_model
    from streams.mesh.shipped import example_mesh, examples
    from streams.records.frames import Named
    from streams.status.account import OwnerAccount, PrivacyAccount, budget
    from streams.tools.model.predicting import PredictionWriter, predict
    from streams.tools.model.writing import run, run_model, write_model
    from streams.tools.tuning.forecasting import ForecastValue, forecast

__all__ = [
    "CollaborationFile",
    "CollaborationOutcome",
    "Engine",
    "ForecastValue",
    "MeshFile",
    "MeshFileError",
    "Model",
    "Named",
    "NodeHistory",
    "Observations",
    "Outcome",
    "OwnerAccount",
    "PredictionWriter",
    "PrivacyAccount",
    "Promise",
    "Step",
    "Summary",
    "UsageError",
    "budget",
    "check_loss",
    "example_mesh",
    "examples",
    "forecast",
    "load",
    "load_collaboration",
    "predict",
    "promise",
    "read_model",
    "run",
    "run_model",
    "unread_records",
    "write_model",
]

_MODULES = {
    "nodes.learner": ("Engine", "Step"),
    "nodes.values": ("Observations",),
    "streams.ledger": ("Promise", "promise"),
    "streams.live.data.letters": ("unread_records",),
    "streams.local.recorder": ("NodeHistory",),
    "streams.local.run": ("Outcome",),
    "streams.collaboration.outcome": ("CollaborationOutcome",),
    "streams.local.results": ("Summary",),
    "streams.mesh.errors": ("MeshFileError", "UsageError"),
    "streams.mesh.shipped": ("example_mesh", "examples"),
    "streams.collaboration.file": ("CollaborationFile", "load_collaboration"),
    "streams.mesh.file": ("MeshFile", "load"),
    "streams.mesh.plugins": ("check_loss",),
    "streams.mesh.model_file": ("Model", "read_model"),
    "streams.records.frames": ("Named",),
    "streams.status.account": ("OwnerAccount", "PrivacyAccount", "budget"),
    "streams.tools.model.writing": ("run", "run_model", "write_model"),
    "streams.tools.tuning.forecasting": ("ForecastValue", "forecast"),
    "streams.tools.model.predicting": ("PredictionWriter", "predict"),
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
