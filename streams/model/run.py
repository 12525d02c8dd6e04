"""The model of a run in one process."""

import numpy as np

from streams.local.summary import Summary
from streams.mesh_file.file import MeshFile
from streams.model.model import Model
from streams.model.writing import model_of

AVERAGED = "the mean of the nodes' running averages, each over its rounds in this run"


def run_model(file: MeshFile, summary: Summary) -> Model:
    """Return the means of the nodes' last decisions and of their averages: what the run's scores are of."""
    return model_of(
        file,
        {node.name: node.guarantee for node in summary.nodes},
        np.array(summary.decision),
        np.array(summary.average),
        round=summary.last_round,
        nodes=len(summary.nodes),
        rounds=min(node.averaged for node in summary.nodes),
        averaged=AVERAGED,
    )
