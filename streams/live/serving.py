"""Serves metrics and probes of a process's nodes, and runs its two halves: data streams and machines."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Protocol

from streams.bus.diagnosis import Expiry
from streams.live.data.start import DataCut, DataFailed
from streams.live.data.streams import DataStreams
from streams.log_events import LogEvent
from streams.mesh.settings.base import Address, is_loopback
from streams.mesh.settings.brokers import BrokersSettings
from streams.metrics.endpoint import Endpoint, LastReads
from streams.metrics.node_metrics import NodeMetrics
from streams.metrics.registry import merge_registries
from streams.runtime.actions import Action, Loop
from streams.runtime.process import Failed, Liveness, LogCut, Stop
from streams.runtime.runner import Host

# Tells which of a process's certificates expire soon.


class Certificates:
    """When a node's certificates expire: those for the mesh broker, and those for the party's own broker."""

    def __init__(self, brokers: BrokersSettings, log: logging.Logger) -> None:
        self.mesh = Expiry({"brokers.mesh": brokers.mesh})
        self.data = Expiry({"brokers.data": brokers.data})
        warn_of_end(self, log)

    @property
    def ends(self) -> tuple[float, float]:
        """When the first certificate for each broker expires, in seconds since 1970."""
        return self.mesh.first, self.data.first

    def soon(self) -> str | None:
        """Return a line on certificates that expire soon; None if none does."""
        return ", ".join(filter(None, [self.mesh.soon(), self.data.soon()])) or None


class Ending(Protocol):
    """Reports certificates that expire soon."""

    def soon(self) -> str | None:
        """Return a line on certificates that expire soon; None if none does."""


def warn_of_end(certificates: Ending, log: logging.Logger) -> None:
    """Log a warning of certificates that expire soon."""
    soon = certificates.soon()
    if soon is not None:
        log.warning("%s", soon, extra=LogEvent.CERTIFICATE_EXPIRES.of())


class Endpoints:
    """Serves at the given addresses until `closing` closes; probes answer before there are metrics.

    `is_over` returns whether the run has ended in order with this exception. If so, the process
    stays until readers of its metrics have seen it (`LastReads`). Raises NotServed.
    """

    def __init__(
        self,
        shared: Address | None,
        private: Address | None,
        log: logging.Logger,
        closing: ExitStack,
        *,
        stop: Stop,
        is_over: Callable[[BaseException | None], bool],
    ) -> None:
        warn_of_open("private metrics", private, log)
        self._shared, self._private = (
            None if address is None else closing.enter_context(Endpoint(*address))
            for address in (shared, private)
        )
        self._last_reads = closing.enter_context(LastReads(is_over, stop.asked.wait, stays=stop.stays))

    def show(
        self,
        nodes: Mapping[str, NodeMetrics],
        stalled: Callable[[], str | None],
        certificates: Certificates,
        ended: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Serve metrics by node, each kind at its own endpoint; `stalled` names the part that stands still.

        The name goes to the owner alone, as a part may stand still because of a record. The reason in `ended`
        for a node's end also goes to the owner alone, as it may name a path or a broker of the owner's.
        """

        def missing(*, whole: bool) -> str | None:
            ends = ((metrics, name, ended(name)) for name, metrics in nodes.items())
            by_node = (
                (name, metrics.missing() if end is None else end if whole else "has ended")
                for metrics, name, end in ends
            )
            reasons = [
                reason if len(nodes) == 1 else f"{name}: {reason}" for name, reason in by_node if reason
            ]
            return "; ".join(reasons) or None

        shared = [metrics.shared for metrics in nodes.values()]
        private = [metrics.private for metrics in nodes.values()]
        if self._shared is not None:
            noted = certificates.mesh.soon
            self._shared.show(merge_registries(shared), partial(missing, whole=False), noted=noted)
        if self._private is not None:
            union = merge_registries(private)
            self._private.show(union, partial(missing, whole=True), stalled, certificates.soon)
        self._last_reads.watch(self._shared, shared)
        self._last_reads.watch(self._private, private)


def warn_of_open(what: str, address: Address | None, log: logging.Logger) -> None:
    """Log a warning if others can reach pages that reveal something of the data."""
    if address is not None and not is_loopback(address):
        text = "%s tell about the data, and %s:%d is open to others"
        log.warning(text, what, *address, extra=LogEvent.PORT_OPEN.of())


def liveness(loop: Loop, host: Host, data: DataStreams, limit: float, log: logging.Logger) -> Liveness:
    """Return the liveness of the nodes. Neither a broker that is away nor missing data affects it."""
    pulses = {
        "the node's loop": loop.pulse,
        "the data stream's loop": data.turning,
        "the loop that reads the data topic": data.reading,
    }
    return Liveness(limit, pulses, {"the thread that reads the mesh broker": lambda: host.is_reading}, log)


async def run_halves(
    work: Action, end_work: Action, read: Callable[[asyncio.Event], Coroutine[Any, Any, None]], stop: Stop
) -> None:
    """Run the machines by `work`, and `read` their records, until either returns, or a stop is requested.

    `work` runs in a thread of its own, `read` in this loop. `end_work` makes `work` return, from any thread.
    `read` returns once its event is set. Raises the exception of the function that ended first.
    """
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        end_work()
        with suppress(RuntimeError):  # the loop is closed, as everything has ended
            loop.call_soon_threadsafe(stopped.set)

    stop.then(end)
    machine = asyncio.ensure_future(asyncio.to_thread(work))
    stream = asyncio.ensure_future(read(stopped))
    await asyncio.wait({machine, stream}, return_when=asyncio.FIRST_COMPLETED)
    end_work()
    stopped.set()
    await asyncio.wait({machine, stream})
    try:
        machine.result()
        stream.result()
    except DataFailed as error:
        kind = LogCut if isinstance(error, DataCut) else Failed
        raise kind(str(error)) from error
