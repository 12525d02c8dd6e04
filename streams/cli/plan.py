"""`mirrormesh plan`: shows what a mesh would do and promise, without running it."""

from rich.console import Console

from streams.cli.arguments import MeshArgument, RoundsOption
from streams.mesh.file import load
from streams.terminal.forecast import facts
from streams.terminal.report import say_facts


def plan(mesh: MeshArgument, rounds: RoundsOption = None) -> None:
    """Show what a mesh would do, and what it promises to whom. Runs nothing.

    Shows members, edges, how fast information spreads, mechanism and noise, the guarantee in words, the
    privacy spent after the rounds, and what happens then. Other parties' own parts need not be here.

    \b
    Examples:
      mirrormesh plan mesh.yaml
      mirrormesh plan mesh.yaml --rounds 10000
    """  # noqa: D301 # \b is click's mark: no new line breaks
    say_facts(Console(highlight=False), facts(load(mesh), rounds))
