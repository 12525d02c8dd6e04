"""The progress of a collaboration, from the heartbeats of its learner and owners, which anybody may read."""

import time
from contextlib import closing
from typing import NamedTuple

from streams.bus.logs import Logs
from streams.bus.mesh_log import MeshLog, messages
from streams.mesh.file import CollaborationFile
from streams.mesh.wire import Wire


class PartyStatus(NamedTuple):
    """One party. `query`: the last that it has asked or answered; `age`: seconds since its last heartbeat.

    `age` None: it was never heard in this run.
    """

    name: str
    query: int = 0
    age: float | None = None


def look(file: CollaborationFile) -> list[PartyStatus]:
    """Return the learner, then the owners. Raises BusError, MeshFileError if no broker is named."""
    with closing(Logs(file.mesh_broker)) as logs:
        log = MeshLog(Wire(file.resolved).topics, file.digest(), logs, envelope=file.resolved.envelope)
        return [_party(log, name) for name in (file.mesh.learner, *file.mesh.owners)]


def _party(log: MeshLog, name: str) -> PartyStatus:
    entries = log.heartbeats(name, last=2)
    if not messages(entries):
        return PartyStatus(name)
    last = next(entry for entry in reversed(entries) if entry.message is not None)
    query = max(beat.stepped for beat in messages(entries))
    return PartyStatus(name, query, max(0.0, time.time() - last.record.timestamp))
