"""Plans and heartbeats, as they come in on the mesh broker. Blocks while it asks."""

import time

from streams.bus.errors import OffsetOutOfRange
from streams.bus.logs import Logs
from streams.bus.mesh_log import MeshLog
from streams.mesh.file import MeshFile
from streams.public.sight import KEPT, Entry

BEATS = 32
"""How many of a node's heartbeats are looked at first: enough to know the newest of its processes."""


class News:
    """Hands on what was not read before. Close it when done. MeshFileError where no broker is given."""

    def __init__(self, file: MeshFile) -> None:
        mesh = file.mesh
        self._logs = Logs(file.mesh_broker)
        self._log = MeshLog.of(file, self._logs)
        self._nodes, topics = tuple(mesh.nodes), self._log.topics
        beats = {topics.progress(name): BEATS for name in mesh.nodes}
        self._first = beats | {topics.topology: KEPT * mesh.horizon}
        self._offsets: dict[str, int] = {}
        self._asked = float("-inf")

    def close(self) -> None:
        """Let go of the broker."""
        self._logs.close()

    def ask(self) -> list[Entry]:
        """Return what is new, each topic in its order; times are those of `time.monotonic`.

        Raises Unreachable (after half a second where it can), UnknownTopic, Denied.
        """
        if self._offsets:
            self._logs.end(self._log.topics.topology)  # soon answered, or soon not
        for topic in self._first.keys() - self._offsets.keys():
            self._offsets[topic] = self._log.tail(topic, self._first[topic])
        try:
            news = list(self._log.news(self._nodes, self._offsets))
        except OffsetOutOfRange as error:  # retention was faster, or the topic was made anew: begin again
            del self._offsets[error.topic]
            return []
        since, self._asked = self._asked, time.monotonic()
        entries = []
        for topic, record, message in news:
            self._offsets[topic] = record.offset + 1
            if message is not None:
                # the sender's clock may be wrong: what is new was sent after the last question
                entries.append((message, max(since, self._asked - max(0.0, time.time() - record.timestamp))))
        return entries
