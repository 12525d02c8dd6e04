"""The catalogue as a table in Markdown, for docs/reference/metrics.md: `python -m docs.generate`."""

from collections.abc import Iterator

from streams.metrics.catalogue import PREFIX, PrivateMetric, SharedMetric


def table() -> str:
    """Return a line for each metric, and one for the client library's own."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"| `{PREFIX}_...` | kind | unit | labels | who | meaning |"
    yield "|---|---|---|---|---|---|"
    for metric in (*SharedMetric, *PrivateMetric):
        what = metric.value
        who = "all" if isinstance(metric, SharedMetric) else "owner"
        labels = ", ".join(f"`{label}`" for label in what.labels)
        meaning = what.help.replace("|", r"\|")
        yield f"| `{what.name}` | {what.kind} | {what.unit} | {labels} | {who} | {meaning} |"
    figures = "Memory, processor time, files and start of the process."
    yield f"| `process_...` | | | | owner | {figures} |"
