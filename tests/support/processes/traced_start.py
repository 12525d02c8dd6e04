"""Runs `mirrormesh` with these arguments, and prints which functions a node's start calls, in their order.

Each line of standard output is a call of one of the product's functions from one of its files, once: the
file and function that is called, and the file that calls it ("-": none, as a thread begins). What a module
does when it is imported is left out. The start is over once the machine has handled its first event and the
data stream is read; then the process is asked to end.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).parents[3]
PRODUCT = tuple(f"{ROOT}/{package}/" for package in ("topology", "nodes", "streams"))
OPTIMISED = 1
"""A function's flag, which bodies of modules and classes lack."""
LAST = {"NodeMachine.handle", "DataStreams.read"}


def _is_product(code: CodeType) -> bool:
    return bool(code.co_flags & OPTIMISED) and code.co_filename.startswith(PRODUCT)


class Trace:
    """The calls so far; `called` is a profiler."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, str], None] = {}
        self._missing = set(LAST)
        self._lock = threading.Lock()

    def called(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call from one file to another."""
        code = frame.f_code
        if event != "call" or not _is_product(code):
            return
        caller = frame.f_back
        while caller is not None and not _is_product(caller.f_code):
            if caller.f_code.co_filename.startswith(PRODUCT):
                return  # a module is imported
            caller = caller.f_back
        source = "-" if caller is None else caller.f_code.co_filename
        name = code.co_qualname.replace(".<locals>", "")
        with self._lock:
            self._lines[code.co_filename, name, source] = None
            self._missing.discard(name)

    def end(self) -> None:
        """Print the calls, and end the process, once the start is over."""
        while self._missing:
            threading.Event().wait(0.05)
        threading.Event().wait(1)  # heartbeats, acknowledgements and the first turns are part of it
        with self._lock:
            lines = list(self._lines)
        for target, name, source in lines:
            print(target.removeprefix(f"{ROOT}/"), name, source.removeprefix(f"{ROOT}/"))  # noqa: T201
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    from streams.cli import main

    trace = Trace()
    threading.Thread(target=trace.end, daemon=True).start()
    threading.setprofile(trace.called)
    sys.setprofile(trace.called)
    main(sys.argv[1:])
