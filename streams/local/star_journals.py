"""The journals of a collaboration that runs in one process, in a state folder: those of its processes."""

import secrets
from contextlib import ExitStack
from pathlib import Path

from nodes.accounting.spends import Spend
from streams.ledger import Reuse, known_spends
from streams.live.owner_spend import OwnerSpend
from streams.local.collaboration import StarJournals
from streams.mesh.errors import UsageError, writable_folder
from streams.mesh.file import CollaborationFile
from streams.state.folder import StateFolder
from streams.state.learner_journal import open_learner_journal


class StateJournals:
    """The journals of one run, open until `closing` is left; those of other runs are put aside.

    Raises UsageError, JournalError if they do not fit, or an owner's is a copy: no log tells of its answers.
    """

    def __init__(
        self, file: CollaborationFile, state: Path, closing: ExitStack, *, other_data: bool = False
    ) -> None:
        writable_folder(state)
        self._file, self._state = file, state
        learner = closing.enter_context(open_learner_journal(file, state, secrets.token_hex(16)))
        self._spends = {
            name: OwnerSpend(file, name, state, other_data=other_data) for name in sorted(file.mesh.owners)
        }
        self._own: dict[str, Spend] = {}
        self._owners = {
            name: closing.enter_context(spend.journal(secrets.token_hex(16)))
            for name, spend in self._spends.items()
        }
        for name, journal in self._owners.items():
            if journal.copied:
                raise UsageError(
                    f"{StateFolder(state).journal(name)}: is a copy, and nothing tells how far the original "
                    f"went: go on with that, or begin a new run"
                )
        self._closing, self.star = closing, StarJournals(learner, self._owners)

    def begin(self) -> None:
        """Record that the run continues."""
        for name, spend in self._spends.items():
            self._own[name] = spend.begin(self._owners[name])
            self._closing.callback(spend.end, self._owners[name])

    def reuses(self) -> dict[str, Reuse]:
        """Return what is known of each owner's set, for its guarantee."""
        return known_spends(self._file, self._own, self._state, own=self._own)
