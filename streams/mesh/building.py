"""From the shared part of a mesh file to the pure objects it describes.

Each function raises ValueError where the settings, each right by itself, do not go together.
"""

from streams.mesh.algorithm import algorithm, constraint, mirror_map, step_size
from streams.mesh.learner import learner, loss, slots
from streams.mesh.price import price
from streams.mesh.privacy import composition, guarantee, ledger, mechanism, sampler
from streams.mesh.schedule import schedule, scheduler

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
