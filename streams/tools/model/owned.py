"""Makes the model of one node from its journal: its running average over the run. The node may be running."""

from pathlib import Path

import numpy as np

from nodes.values import Consensus
from streams.local.summary import Summary
from streams.mesh.file import MeshFile
from streams.mesh.model_file import Model
from streams.state.folder import JournalError, StateFolder
from streams.state.journal import JournalReader
from streams.tools.model.writing import model_of, promised_on_broker


def journal_model(file: MeshFile, state: Path, node: str) -> Model:
    """Return the node's model. Raises JournalError: no journal, another's, or no round stepped yet."""
    path = StateFolder(state).journal(node)
    with JournalReader(path) as journal:
        life, records = journal.life, journal.records(1)
    if (life.run, life.node, life.digest) != (file.mesh.run, node, file.digest()):
        raise JournalError(f"{path} is of another node, run or settings than {node}'s in {file.mesh.run}")
    record = records[-1] if records else None
    if record is None or record.average is None:
        raise JournalError(f"{path}: no round was stepped yet, so there is no model")
    algorithm = file.resolved.algorithm
    newest = algorithm.decide(record.round, Consensus(algorithm.contain(record.release)))
    return model_of(
        file,
        promised_on_broker(file),
        newest,
        record.average.mean,
        round=record.round,
        nodes=1,
        rounds=record.average.rounds,
        averaged=f"the running average of node {node}, over the whole run as its journal knows it",
        node=node,
    )


AVERAGED = "the mean of the nodes' running averages, each over its rounds in this run"


def run_model(file: MeshFile, summary: Summary) -> Model:
    """Return the means of the nodes' last decisions and of their averages, which the run's scores measure."""
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
