"""Runs the command line in this process, as a user would in the folder at hand."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from streams.cli import main

MESH = """
mesh:
  name: small
  run: run-1
  nodes: [a, b, c]
  dimension: 2
  algorithm:
    name: dpdo-nc
    constraint: {l1-ball: 3}
    step_size: {rule: inverse-sqrt, a: 0.5}
  loss: range
  slots: {by: count, size: 1}
  privacy: {mechanism: laplace, epsilon: 1, gradient_bound: 0.5, noise: simulated}
  topology: {graph: ring}
  rounds: 40
nodes:
  a: {source: {kind: localisation}}
  b: {source: {kind: localisation}}
  c: {source: {kind: localisation}}
"""


class Outcome(NamedTuple):
    """What a command left on the screen, and its exit code."""

    code: int
    out: str
    err: str


@contextmanager
def logging_kept() -> Iterator[None]:
    """Log afterwards as before, whatever a command has set up for its process."""
    root, ours = logging.getLogger(), logging.getLogger("mirrormesh")
    before = root.handlers[:], root.level, ours.level, logging.raiseExceptions
    try:
        yield
    finally:
        root.handlers[:], logging.raiseExceptions = before[0], before[3]
        root.setLevel(before[1])
        ours.setLevel(before[2])


class Commands:
    """`call("plan", "mesh.yaml")` is `mirrormesh plan mesh.yaml`, or what another `entry` makes of it."""

    def __init__(self, capsys: pytest.CaptureFixture[str], entry: Callable[[list[str]], None] = main) -> None:
        self._capsys, self._entry = capsys, entry

    def __call__(self, *arguments: object) -> Outcome:
        """Run it. SystemExit alone may come out of it."""
        self._capsys.readouterr()
        with logging_kept(), pytest.raises(SystemExit) as ended:
            self._entry([str(argument) for argument in arguments])
        shown = self._capsys.readouterr()
        return Outcome(int(ended.value.code or 0), shown.out, shown.err)
