"""From the shared part of a mesh file to the pure objects it describes.

Each function raises ValueError where the settings, each right by itself, do not go together.
"""

from streams.mesh_file.build.account import composition, ledger
from streams.mesh_file.build.algorithm import algorithm, constraint, mirror_map, step_size
from streams.mesh_file.build.learner import learner, loss, slots
from streams.mesh_file.build.price import price
from streams.mesh_file.build.privacy import guarantee, mechanism, sampler
from streams.mesh_file.build.schedule import schedule, scheduler

__all__ = [
    "algorithm",
    "composition",
    "constraint",
    "guarantee",
    "learner",
    "ledger",
    "loss",
    "mechanism",
    "mirror_map",
    "price",
    "sampler",
    "schedule",
    "scheduler",
    "slots",
    "step_size",
]
