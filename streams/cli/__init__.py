"""The command line `mirrormesh`. Ctrl-C while it loads ends the process without a traceback."""

import signal
import sys
import warnings
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Load the command line and run it (command_line.main)."""
    if arguments is None and not sys.warnoptions:  # as a program of its own, and nobody has asked for any
        # numpy's warning of a calculation in a user's own loss or source would reveal a bit of a record
        warnings.simplefilter("ignore")
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        # an interrupt while loading would give a traceback, or be lost in an import
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from streams.cli import command_line  # noqa: PLC0415 # not before this
    from streams.mesh.read_files import noting_files  # noqa: PLC0415 # as above
    from streams.mesh.user_code import interrupted  # noqa: PLC0415 # as above

    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
    try:
        with noting_files():
            command_line.main(arguments)
    finally:
        if signal.getsignal(signal.SIGINT) is interrupted:  # an ignored signal stays ignored
            signal.signal(signal.SIGINT, usual)
