"""The runbooks, and the commands that they name."""

import re
from pathlib import Path

RUNBOOKS = (Path(__file__).parents[2] / "deploy" / "prometheus" / "runbooks.md").read_text()
COMMANDS = sorted({tuple(found.split()) for found in re.findall(r"`mirrormesh ([^`]+)`", RUNBOOKS)})
"""Each in words; MESH and NODE stand for what the operator has."""
