"""Tables for the architecture page: what each folder holds, and the tables of the two machines."""

import ast
from pathlib import Path

from nodes.machine import machine
from topology import scheduler

ROOT = Path(__file__).parents[2]
PACKAGES = ("topology", "nodes", "streams", "mirrormesh")


def region() -> str:
    """Return a line for each package: the first sentence of its docstring."""
    rows = ["| folder | holds |", "|---|---|"]
    for name in PACKAGES:
        for init in sorted((ROOT / name).rglob("__init__.py")):
            text = ast.get_docstring(ast.parse(init.read_text()))
            if text is not None:
                rows.append(f"| `{init.parent.relative_to(ROOT)}/` | {_first_paragraph(text)} |")
    return "\n".join(rows)


def node_machine() -> str:
    """Return the phase table of the node machine."""
    return _table(machine.__doc__)


def scheduler_machine() -> str:
    """Return the event table of the scheduler machine."""
    return _table(scheduler.__doc__)


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split()).replace("|", r"\|")


def _table(text: str | None) -> str:
    lines = [line for line in (text or "").splitlines() if line.startswith("|")]
    if not lines:
        raise ValueError("the module's docstring has no table")
    return "\n".join(lines)
