"""Tables for the architecture page: what each folder holds, and the two machines."""

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
    """Return the phases of the node machine, as a picture and as a table."""
    arrows = [f"  [*] --> {machine.Phase.WAITING}: the process starts"]
    arrows += [f"  {one.phase} --> {one.then}: {one.when}" for one in machine.TRANSITIONS]
    rows = [f"| {one.phase} | {one.when} | {one.does} | {one.then} |" for one in machine.TRANSITIONS]
    heading = ["| phase | once there is | the node does | and is |", "|---|---|---|---|"]
    picture = ["```mermaid", "stateDiagram-v2", *arrows, "```", ""]
    return "\n".join([*picture, *heading, *rows])


def scheduler_machine() -> str:
    """Return the event table of the scheduler machine."""
    lines = [line for line in (scheduler.__doc__ or "").splitlines() if line.startswith("|")]
    if not lines:
        raise ValueError("the module's docstring has no table")
    return "\n".join(lines)


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split()).replace("|", r"\|")
