"""`mirrormesh plan`: what would happen, and what is promised. Runs nothing."""

from rich.console import Console

from streams.cli.arguments import MeshArgument, RoundsOption
from streams.mesh.file import load
from streams.terminal.forecast import facts
from streams.terminal.report import say_facts


def plan(mesh: MeshArgument, rounds: RoundsOption = None) -> None:
    """Say what a mesh would do, and what it promises to whom. Runs nothing.

    Members, edges, how soon what one node learns reaches all, mechanism and noise, the guarantee in words,
    what is spent after so many rounds, and what then. Other parties' own parts need not be here.

    \b
    Examples:
      mirrormesh plan mesh.yaml
      mirrormesh plan mesh.yaml --rounds 10000
    """  # noqa: D301 # \b is click's mark: no new line breaks
    say_facts(Console(highlight=False), facts(load(mesh), rounds))
