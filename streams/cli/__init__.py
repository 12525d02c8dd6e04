"""The command line `mirrormesh`. Ctrl-C while it loads just ends it."""

import signal
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Load the command line and run it (command_line.main)."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        # an interrupt while loading would give a traceback, or be lost in an import
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from streams.cli import command_line  # noqa: PLC0415 # not before this
    from streams.mesh.user_code import interrupted  # noqa: PLC0415 # as above

    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
    try:
        command_line.main(arguments)
    finally:
        if signal.getsignal(signal.SIGINT) is interrupted:  # an ignored signal stays ignored
            signal.signal(signal.SIGINT, usual)
