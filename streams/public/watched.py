"""Plans and heartbeats, as they come in on the mesh broker. Blocks while it asks."""

import time
from contextlib import suppress

from streams.bus.errors import OffsetOutOfRange
from streams.bus.logs import Logs, Stored
from streams.codec import Refused, decode_heartbeat, decode_plan
from streams.codec.topics import MeshTopics
from streams.mesh.file import MeshFile
from streams.public.sight import KEPT, Entry

BEATS = 32
"""How many of a node's heartbeats are looked at first: enough to know the newest of its processes."""


class News:
    """Hands on what was not read before. Close it when done. MeshFileError where no broker is given."""

    def __init__(self, file: MeshFile) -> None:
        mesh = file.mesh
        self._run, self._digest = mesh.run, file.digest()
        self._topics = MeshTopics(mesh.name, mesh.run)
        self._nodes = {self._topics.progress(name): name for name in mesh.nodes}
        self._first = dict.fromkeys(self._nodes, BEATS) | {self._topics.topology: KEPT * mesh.horizon}
        self._offsets: dict[str, int] = {}
        self._asked = float("-inf")
        self._logs = Logs(file.mesh_broker)

    def close(self) -> None:
        """Let go of the broker."""
        self._logs.close()

    def ask(self) -> list[Entry]:
        """Return what is new, each topic in its order; times are those of `time.monotonic`.

        Raises Unreachable (after half a second where it can), UnknownTopic, Denied.
        """
        if self._offsets:
            self._logs.end(self._topics.topology)  # soon answered, or soon not
        for topic in self._first.keys() - self._offsets.keys():
            first, end = self._logs.span(topic)
            self._offsets[topic] = max(first, end - self._first[topic])
        try:
            found = self._logs.read(self._offsets)
        except OffsetOutOfRange as error:  # retention was faster, or the topic was made anew: begin again
            del self._offsets[error.topic]
            return []
        since, self._asked = self._asked, time.monotonic()
        entries = []
        for topic, records in found.items():
            for record in records:
                with suppress(Refused):
                    entries.append(self._entry(topic, record, since))
            if records:
                self._offsets[topic] = records[-1].offset + 1
        return entries

    def _entry(self, topic: str, record: Stored, since: float) -> Entry:
        # the sender's clock may be wrong: what is new was sent after the last question
        sent = max(since, self._asked - max(0.0, time.time() - record.timestamp))
        node = self._nodes.get(topic)
        if node is None:
            return decode_plan(record.value, self._run, self._digest), sent
        return decode_heartbeat(record.value, self._run, node, self._digest), sent
