"""What a node's round is made of, measured alone in this process: journal, lesson, and all but the broker."""

import time
from pathlib import Path

import numpy as np

from nodes.privacy.private import Private
from nodes.values import Consensus, Decision, FloatArray
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from streams.mesh.file import load
from streams.mesh.mesh import Mesh
from streams.records.observed import observed
from streams.records.sources import open_source
from streams.state.journal import SqliteJournal
from streams.state.journal_file import JournalReader
from tests.benchmarks.kafka_mesh import ROWS, rows


def commits(known: Path, count: int, pause: float = 0.0) -> tuple[FloatArray, float]:
    """Append a journal's last record `count` times, on its disk, `pause` seconds apart.

    Returns the seconds of each append, shape (count,), and the processor time of one.
    """
    with JournalReader(known) as journal:
        (record,), life = journal.records(1), journal.life
    fresh = known.with_name(f"commits-{pause}.journal")
    taken = []
    with SqliteJournal(
        fresh, run="commits", node="a", digest=life.digest, instance=life.instance, horizon=life.horizon
    ) as journal:
        before = time.process_time()
        for round in range(1, count + 1):
            again = record._replace(round=round)
            started = time.perf_counter()
            journal.append(again)
            taken.append(time.perf_counter() - started)
            time.sleep(pause)
        cpu = (time.process_time() - before) / count
    return np.array(taken), cpu


def lessons(path: Path, count: int, pause: float = 0.0) -> tuple[float, float]:
    """Return the median seconds of processor time to decode a slot's records, and to learn from them.

    One lesson comes `pause` seconds after the other: by then the processor's caches hold other things.
    """
    file = load(path)
    mesh, node = file.mesh, next(iter(file.mesh.nodes))
    learner = Mesh(mesh).node(node).learner
    decoder = open_source(file, node, mesh.seed).decoder
    lines, point, taken = rows(mesh.dimension), np.zeros(mesh.dimension), []
    for round in range(1, count + 1):
        values = tuple(lines[(round * mesh.slots.size + k) % ROWS] for k in range(mesh.slots.size))
        started = time.process_time()
        found = observed(values, decoder)
        decoded = time.process_time()
        learner.learn(round, Consensus(point), Decision(point), Private(found), round)
        taken.append((decoded - started, time.process_time() - decoded))
        time.sleep(pause)
    decoding, learning = np.median(taken, axis=0)
    return float(decoding), float(learning)


def without_broker(path: Path, rounds: int) -> float:
    """Return the seconds of processor time a node and round in one process: all but journal and broker."""
    file = load(path)
    for _ in range(2):  # the first is the warm-up
        mesh = MemoryMesh(mesh_parts(file, rounds=rounds), lambda *_: None)
        started = time.process_time()
        mesh.run()
        taken = time.process_time() - started
        mesh.close()
    return taken / rounds / len(file.mesh.nodes)
