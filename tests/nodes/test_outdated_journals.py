"""A journal is too old to go on from if its node's edges hold what it lacks, of whichever life."""

import numpy as np
import pytest

from nodes.machine.journal import JournalRecord, ReleaseMessage, is_outdated
from nodes.values import Release

OWN, OTHER = "1" * 32, "2" * 32


def record(round, value=0.5):
    return JournalRecord(
        round=round,
        stepped=round - 1,
        release=Release(np.array([value])),
        exact=False,
        charged=round - 1,
        epsilon_spent=0.0,
        data_position=(),
        topology_position=0,
        edge_positions=(),
        given_up=(),
        corrected=(),
        distrusted=(),
        average=None,
    )


def published(round, instance=OWN, value=0.5):
    return record(round, value).message("r", "a", instance, simulated=True)


JOURNAL = (record(4), record(5))


@pytest.mark.parametrize(
    ("message", "outdated"),
    [
        (published(5), False),
        (published(2), False),  # older than what the journal keeps
        (published(6), True),
        (published(5, value=0.25), True),
        (published(5, OTHER, 0.25), False),  # an earlier life
        (published(6, OTHER), True),  # a later one, which has read records that this one would read again
    ],
)
def test_a_journal_is_outdated(message, outdated):
    assert isinstance(message, ReleaseMessage)
    assert is_outdated(JOURNAL, OWN, [published(4), message]) is outdated


def test_an_empty_journal_is_outdated_only_by_its_own_life():
    assert not is_outdated((), OWN, [published(3, OTHER)])
    assert is_outdated((), OWN, [published(3)])
