"""The events of a log as tables in Markdown, for docs/reference/log.md: `python -m docs.generate`."""

from collections.abc import Iterator

from streams.log_events import FIELDS, LogEvent


def region() -> str:
    """Return a line for each field, and one for each event."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "| field | meaning |"
    yield "|---|---|"
    for field, meaning in FIELDS.items():
        yield f"| `{field}` | {meaning} |"
    yield ""
    yield "| event | a line of it says |"
    yield "|---|---|"
    for event in LogEvent:
        yield f"| `{event.label}` | {event.value} |"
