"""Writes what a script has measured into a page, between two comments: nothing there is written by hand."""

import os
import platform
import re
from pathlib import Path
from textwrap import fill

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"
HEAD = """# Faults

What was done to meshes on a real broker, how often, what held, and how long it took until every
node was beyond all rounds that had been planned before. Scripts write the tables below; run them
again to compare.

`make test-slow` has most of these faults too: kills, SIGTERM, stopped nodes, schedulers and
brokers, split schedulers, journals that are deleted, old or copied, topics made again, power cuts
and lost disks. The tables alone have journals whose file or write-ahead log is changed, cut,
emptied or deleted, records cut beyond a stopped node's position, a broker dead for 90 s or slow,
the soak, the share of a slow node, and floods.
"""


def write(name: str, text: str) -> Path:
    """Replace the part of that name, or append it; return the page's path."""
    page = PAGE.read_text() if PAGE.exists() else HEAD
    part = f"<!-- measured: {name} -->\n\n{wrapped(text)}\n\n<!-- end: {name} -->\n"
    found = re.compile(f"<!-- measured: {name} -->.*?<!-- end: {name} -->\n", re.DOTALL)
    PAGE.write_text(found.sub(lambda _: part, page) if found.search(page) else f"{page}\n{part}")
    return PAGE


def wrapped(text: str) -> str:
    """Return the text with paragraphs of at most 100 columns; tables and headings stay as they are."""
    parts = text.strip().split("\n\n")
    return "\n\n".join(part if part[0] in "#|" else fill(part, 100, break_on_hyphens=False) for part in parts)


def machine() -> str:
    """What it was measured on."""
    python = platform.python_version()
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {python}, shared with other work"
