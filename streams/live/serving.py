"""Runs a node's two halves: the data stream in the main thread's loop, the machine's loop in a thread."""

import asyncio
from contextlib import suppress

from nodes.machine.journal import DataPosition
from streams.live.data.start import DataFailed
from streams.live.data.stream import DataStream
from streams.live.live_node import LiveNode
from streams.live.stopping import Failed, Stop


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
