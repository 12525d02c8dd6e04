"""The log of a process: one line for each event on standard error, as text or JSON.

Libraries are logged at WARNING and above, each of their messages at most once a minute. Their lines never
have the text of an exception, or bytes, because these may hold a record. The log has the type and place of an
exception. A broker that is away is one fact of which several libraries tell: it has one line (`Outages`).
"""

import json as json_format
import logging
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from traceback import extract_tb
from typing import Any

from streams.bus.connection import RateLimited
from streams.log_events import LogEvent, Outages

LEVELS = ("debug", "info", "warning", "error")
"""Levels of our own messages."""
_OURS = "mirrormesh"
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BYTES = re.compile(r"""\bb(['"])(?:\\.|(?!\1).)*\1""")
_FRAMES = 5


def start_logging(*, json: bool, level: str) -> None:
    """Log this process to standard error, in place of any earlier setup.

    Our own loggers are under `mirrormesh`: a line of `mirrormesh.node.east` begins with `node east:`. Raises
    ValueError unless the level is one of `LEVELS`.
    """
    if level not in LEVELS:
        raise ValueError(f"level is {level!r}: must be one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if json else _Text())
    handler.addFilter(_Libraries())
    handler.addFilter(Outages())
    quiet = logging.ERROR if level == "error" else logging.WARNING
    logging.basicConfig(handlers=[handler], level=quiet, force=True)
    logging.getLogger(_OURS).setLevel(level.upper())
    _run.clear()
    logging.raiseExceptions = False  # otherwise a line that cannot be formatted is printed with its arguments


_run: dict[str, str] = {}


def name_run(mesh: str, run: str) -> None:
    """Name the process's mesh and run in all later lines of JSON."""
    _run.update(mesh=mesh, run=run)


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == _OURS or record.name.startswith(f"{_OURS}.")


class _Libraries(logging.Filter):
    """Cleans the lines of libraries, and drops those that come too often."""

    def __init__(self) -> None:
        super().__init__()
        self._limit = RateLimited()

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_ours(record):
            return True
        text = _cleaned(record)
        record.msg, record.args = "%.0s%.0s%s", (record.pathname, record.lineno, text)  # a kind: who says it
        return self._limit.filter(record)


def _cleaned(record: logging.LogRecord) -> str:
    """Return a library's line without exceptions' texts and bytes, up to where a traceback may begin."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    record.args = tuple(
        argument if _is_harmless(argument) else type(argument).__name__ for argument in arguments
    )
    try:
        text = record.getMessage()
    except (TypeError, ValueError):  # the text needs a number, or has the wrong number of arguments
        text = str(record.msg)
    return _BYTES.sub("bytes", text.partition("\n")[0])


def _is_harmless(argument: object) -> bool:
    if isinstance(argument, tuple | list | set | frozenset):
        return all(map(_is_harmless, argument))
    return argument is None or isinstance(argument, str | int | float)


class _Text(logging.Formatter):
    """`2026-01-01T00:00:00.000Z INFO node east: ...`"""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname} {_source(record)}: {_message(record)}"


class _Json(logging.Formatter):
    """An object with time, level, source, event, the event's fields, and message."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "source": _source(record),
            "event": _event(record).label,
            **_run,
            **_fields(record),
            "message": _message(record),
        }
        return json_format.dumps(line)


def _event(record: logging.LogRecord) -> LogEvent:
    event = getattr(record, "event", None)
    if isinstance(event, LogEvent):
        return event
    return LogEvent.CLIENT if record.name == f"{_OURS}.kafka" else LogEvent.LIBRARY


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = dict(getattr(record, "fields", {}))
    if not _is_ours(record):
        return {"reason": record.name} | fields
    kind, _, name = record.name.removeprefix(f"{_OURS}.").partition(".")
    return ({"node": name} if name and kind in {"node", "owner"} else {}) | fields


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _source(record: logging.LogRecord) -> str:
    if not _is_ours(record):
        return record.name
    return record.name.removeprefix(_OURS).removeprefix(".").replace(".", " ") or _OURS


def _message(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    text = record.getMessage() + (f" [{_kind_and_place(error)}]" if error else "")
    return _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)


def _kind_and_place(error: BaseException) -> str:
    frames = extract_tb(error.__traceback__)[-_FRAMES:]
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__} at {' > '.join(places)}" if places else type(error).__name__
