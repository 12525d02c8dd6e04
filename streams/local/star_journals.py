"""The journals of a collaboration that runs in one process, in a state folder."""

import secrets
from contextlib import ExitStack
from pathlib import Path

from nodes.accounting.price import Price
from streams.local.collaboration import StarJournals
from streams.mesh.errors import writable_folder
from streams.mesh.file import CollaborationFile
from streams.state.folder import StateFolder
from streams.state.learner_journal import LearnerJournal
from streams.state.owner_journal import OwnerJournal
from streams.state.party_journal import Party


def star_journals(file: CollaborationFile, state: Path, closing: ExitStack) -> StarJournals:
    """Open the journals in the folder, or make them. Raises UsageError, JournalError if they do not fit."""
    writable_folder(state)
    folder = StateFolder(state)
    learner = closing.enter_context(
        LearnerJournal.opened(
            folder.journal(file.mesh.learner), _party(file, file.mesh.learner), secrets.token_hex(16)
        )
    )
    owners = {
        name: closing.enter_context(
            OwnerJournal.opened(
                folder.journal(name), _party(file, name, price(file, name)), secrets.token_hex(16)
            )
        )
        for name in sorted(file.mesh.owners)
    }
    return StarJournals(learner, owners)


def price(file: CollaborationFile, owner: str) -> Price:
    """Return the price of all answers of an owner."""
    mesh, terms = file.mesh, file.mesh.owners[owner]
    settings = {
        "mechanism": terms.mechanism,
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "gradient_bound": mesh.gradient_bound,
        "queries": mesh.queries,
        "records": terms.records,
        "sharing": mesh.sharing,
    }
    named = tuple((key, str(value)) for key, value in settings.items() if value is not None)
    return Price(terms.epsilon, terms.delta or 0.0, 0.0, named)


def _party(file: CollaborationFile, name: str, price: Price | None = None) -> Party:
    mesh = file.mesh
    return Party(mesh.name, mesh.run, name, file.digest(), mesh.agreed_text, price)
