"""Journals of a small mesh, for accounts."""

import numpy as np

from nodes.machine.journal import JournalRecord
from streams.state.journal import SqliteJournal
from tests.support.meshes.files import changed, loaded


def mesh_file(folder, **mesh):
    """The tracking mesh, changed."""
    return loaded(folder, changed(**mesh))


def record(charged, *, stepped=None, position=((0, 30),), spent=None):
    """A journal record after so many charges."""
    stepped = charged if stepped is None else stepped
    return JournalRecord(
        stepped + 1,
        stepped,
        np.zeros(2),
        False,
        charged,
        float(charged) if spent is None else spent,
        position,
        0,
        (),
        (),
        (),
    )


def journal(folder, file, node, made):
    """The journal of a node of the mesh, with that record."""
    path = folder / f"{node}.journal"
    opened = SqliteJournal(
        path,
        run=file.mesh.run,
        node=node,
        digest=file.digest(),
        agreed=file.mesh.agreed_text,
        instance="aa" * 16,
        horizon=file.mesh.horizon,
        mesh=file.mesh.name,
        price=file.resolved.node(node).price if node in file.mesh.nodes else None,
    )
    with opened:
        if made:
            opened.append(made)
