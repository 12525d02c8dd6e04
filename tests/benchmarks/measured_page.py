"""Writes what a script has measured into a page, between two comments: nothing there is written by hand."""

import os
import platform
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"
HEAD = """# Faults

What was done to meshes on a real broker, how often, and how long it took until every node was
beyond all rounds that had been planned before. Scripts write the tables below; run them again to
compare. `make test-slow` has each of these faults too, and many more.
"""


def write(name: str, text: str) -> Path:
    """Replace the part of that name, or append it; return the page's path."""
    page = PAGE.read_text() if PAGE.exists() else HEAD
    part = f"<!-- measured: {name} -->\n\n{text.strip()}\n\n<!-- end: {name} -->\n"
    found = re.compile(f"<!-- measured: {name} -->.*?<!-- end: {name} -->\n", re.DOTALL)
    PAGE.write_text(found.sub(lambda _: part, page) if found.search(page) else f"{page}\n{part}")
    return PAGE


def machine() -> str:
    """What it was measured on."""
    python = platform.python_version()
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {python}, shared with other work"
