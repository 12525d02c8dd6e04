"""Serves a node's metrics and probes, and runs its two halves: the data stream, and the machine's loop."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress

from nodes.machine.journal import DataPosition
from streams.live.data.start import DataFailed
from streams.live.data.stream import DataStream
from streams.live.live_node import LiveNode
from streams.live.liveness import Liveness
from streams.live.stopping import Failed, Stop
from streams.mesh.settings.base import Address, is_loopback
from streams.metrics.endpoint import Endpoint
from streams.metrics.node_metrics import NodeMetrics


class Endpoints:
    """Serves at the given addresses until `closing` closes; probes answer before there are metrics.

    Raises NotServed.
    """

    def __init__(
        self, shared: Address | None, private: Address | None, log: logging.Logger, closing: ExitStack
    ) -> None:
        warn_of_open("private metrics", private, log)
        self._shared, self._private = (
            None if address is None else closing.enter_context(Endpoint(*address))
            for address in (shared, private)
        )

    def show(self, metrics: NodeMetrics, stalled: Callable[[], str | None]) -> None:
        """Show a node's metrics, each kind at its own endpoint; `stalled` says what stands still, if any.

        That goes to the owner alone: a part may stand still because of a record.
        """
        if self._shared is not None:
            self._shared.show(metrics.shared, metrics.missing)
        if self._private is not None:
            self._private.show(metrics.private, metrics.missing, stalled)


def warn_of_open(what: str, address: Address | None, log: logging.Logger) -> None:
    """Log a warning if others can reach pages that reveal something of the data."""
    if address is not None and not is_loopback(address):
        log.warning("%s tell about the data, and %s:%d is open to others", what, *address)


def liveness(live: LiveNode, data: DataStream, limit: float, log: logging.Logger) -> Liveness:
    """Return what tells whether a node works. Neither a broker that is away nor missing data changes it."""
    pulses = {
        "the node's loop": live.pulse,
        "the data stream's loop": data.turning,
        "the loop that reads the data topic": data.reading,
    }
    return Liveness(limit, pulses, {"the thread that reads the mesh broker": lambda: live.reading}, log)


async def serve(live: LiveNode, data: DataStream, position: DataPosition | None, stop: Stop) -> None:
    """Run both, the stream from `position` on, until either ends, or a stop is requested.

    Raises the exception of the one that ended first.
    """
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        live.stop()
        with suppress(RuntimeError):  # the loop is closed, as all has ended
            loop.call_soon_threadsafe(stopped.set)

    stop.then(end)
    machine = asyncio.ensure_future(asyncio.to_thread(live.run))
    stream = asyncio.ensure_future(data.serve(position, stopped, live.slot_closed))
    await asyncio.wait({machine, stream}, return_when=asyncio.FIRST_COMPLETED)
    live.stop()
    stopped.set()
    await asyncio.wait({machine, stream})
    try:
        machine.result()
        stream.result()
    except DataFailed as error:
        raise Failed(str(error)) from error
