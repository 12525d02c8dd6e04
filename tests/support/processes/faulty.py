"""A node's process in which a test can plant a fault: a part that hangs or dies, as a defect would let it."""

import resource
import sys
import threading
import time
from pathlib import Path

from streams.live.data.streams import DataStreams
from streams.runtime.runner import Host
from tests.support.processes.forked import Forked, command

FAULT = "fault"
"""The file, in the folder of the process, that holds the name of the fault to plant."""
FOREVER = 3600.0
_parts = {}


def plant(folder, fault):
    """Plant the fault in the process that looks into that folder."""
    hidden = folder / f"{FAULT}.new"
    hidden.write_text(fault)
    hidden.rename(folder / FAULT)


def _loop():
    _, loop, *_ = _parts["node"]
    loop.put(lambda: time.sleep(FOREVER))


def _stream():
    streams, *_ = _parts["data"]
    streams._streams[0]._loop.call_soon_threadsafe(time.sleep, FOREVER)


def _records():
    _, app = _parts["data"]
    app.reader.thread_loop.call_soon_threadsafe(time.sleep, FOREVER)


def _reader():
    host, *_ = _parts["node"]
    host.reader._between = sys.exit  # what ends a thread, and nobody catches


FAULTS = {
    "the node's loop has not turned for": _loop,
    "the data stream's loop has not turned for": _stream,
    "the loop that reads the data topic has not turned for": _records,
    "the thread that reads the mesh broker is dead": _reader,
}
"""What `/livez` says of each."""


def _remember(owner, method, name):
    original = getattr(owner, method)

    def wrapped(*given):
        _parts[name] = given
        return original(*given)

    setattr(owner, method, wrapped)


def _look():
    while True:
        time.sleep(0.05)
        try:
            fault = Path(FAULT).read_text()
        except FileNotFoundError:
            continue
        Path(FAULT).unlink()
        FAULTS[fault]()


def _command(*given):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _remember(Host, "run", "node")
    _remember(DataStreams, "_turn", "data")
    threading.Thread(target=_look, daemon=True).start()
    command(*given)


class Faulty(Forked):
    """As Forked; `plant` plants a fault."""

    target = staticmethod(_command)
