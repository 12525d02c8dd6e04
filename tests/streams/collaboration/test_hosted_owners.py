"""Owners that share a process: each answers as it would alone, and ends for itself."""

import logging

import pytest

from nodes.protocol import Halt, Identity
from streams.bus.memory import MemoryBroker, MemoryBus
from streams.collaboration.file import load_collaboration
from streams.collaboration.processes import OwnerProcess, PartyOptions
from streams.mesh.errors import UsageError
from streams.runtime.kafka import KafkaProcess
from streams.runtime.presence import Presence
from streams.runtime.process import Failed, LogCut, ProcessExit, Stop
from streams.runtime.runner import Role
from tests.support.collaborations.files import collaboration_file
from tests.support.collaborations.folders import Parties, learnt_in_one_process, written
from tests.support.processes.in_process import Commands

LONGEST = 30.0
"""Seconds after which a process that should have ended is stopped."""


def test_owners_of_one_process_answer_as_they_would_alone(tmp_path):
    file = written(tmp_path)
    parties = Parties(file)
    parties.host("a", "b")
    parties.host("c")
    parties.host("l")
    parties.broker.run()
    assert parties.learnt() == learnt_in_one_process(file)
    assert parties.ended.keys() == {"a", "b", "c", "l"}


class Machine:
    """Ends with what it was made with; None: goes on."""

    halted = False

    def __init__(self, outcome):
        self._outcome = outcome

    def handle(self, _):
        """Return the effect by which it ends. Raises what it was made with."""
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return [] if self._outcome is None else [self._outcome]


def ends(bus, caplog, **outcomes):
    """Run a process of toy owners to its end, or until nobody is left who ends by itself."""
    log = logging.getLogger("mirrormesh.owners")
    process, roles = KafkaProcess(bus, "owner", 60.0, log), {}
    for name, outcome in outcomes.items():
        who = Identity(name, "run-1", "5a" * 16, "b0" * 16)
        presence = Presence(who, "owner", "beats", bytes(16), lambda: None)
        roles[name] = Role(
            machine=Machine(outcome),
            first=None,
            presence=presence,
            beat=None,
            offsets={},
            decode={},
            send={},
            keep={},
            letters="letters",
        )
    over = sum(outcome is not None for outcome in outcomes.values())
    actions = process.world.actions
    actions.every(0.01, lambda: caplog.text.count("has ended: ") == over < len(outcomes) and actions.stop())
    actions.after(LONGEST, actions.stop)
    with caplog.at_level(logging.INFO, "mirrormesh.owners"), Stop() as stop:
        process.run(roles, stop)


@pytest.fixture
def bus():
    """A bus on which nobody says anything."""
    return MemoryBus(MemoryBroker(["beats", "letters"]))


DONE, FULL = Halt("the learner is done"), Halt("no space is left on the device", failed=True)


def test_a_process_ends_well_once_all_its_owners_have(bus, caplog):
    with pytest.raises(ProcessExit, match=r"^all 2 owners have ended$") as ended:
        ends(bus, caplog, a=DONE, b=DONE)
    assert ended.value.exit_code == 0


def test_an_owner_that_fails_ends_for_itself(bus, caplog):
    ends(bus, caplog, a=FULL, b=None, c=DONE)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [
        ("ERROR", "owner a has ended: no space is left on the device"),
        ("INFO", "owner c has ended: the learner is done"),
    ]


@pytest.mark.parametrize(("b", "more"), [(FULL, ", and 1 more"), (DONE, "")], ids=["both", "one"])
def test_the_first_that_has_failed_tells_how_a_process_ends(bus, caplog, b, more):
    words = f"^owner a has failed{more}: no space is left on the device$"
    with pytest.raises(Failed, match=words):
        ends(bus, caplog, a=FULL, b=b)


def test_what_beginning_again_mends_ends_all_at_once(bus, caplog):
    with pytest.raises(LogCut, match="a log was cut"):
        ends(bus, caplog, a=LogCut("a log was cut"), b=None)


def test_an_owner_alone_ends_with_its_own_words(bus, caplog):
    with pytest.raises(ProcessExit, match=r"^the learner is done$"):
        ends(bus, caplog, a=DONE)


def test_owners_that_differ_in_what_a_process_has_once_need_one_each(tmp_path):
    path = collaboration_file(tmp_path, "127.0.0.1:1")
    file = load_collaboration(path)
    OwnerProcess(file, ["bank-a", "bank-b"], PartyOptions(tmp_path))
    other = file.owners["bank-b"].model_copy(update={"private_endpoint": ("127.0.0.1", 9301)})
    owners = dict(file.owners) | {"bank-b": other}
    differing = type(file)(file.path, file.mesh, owners, common=file.common)
    with pytest.raises(UsageError, match="bank-a and bank-b have different private_endpoint: each needs a"):
        OwnerProcess(differing, ["bank-a", "bank-b"], PartyOptions(tmp_path))
    OwnerProcess(differing, ["bank-a", "bank-b"], PartyOptions(tmp_path, private_metrics=("127.0.0.1", 1)))


def test_an_owner_that_is_given_twice_is_refused(call, tmp_path):
    collaboration_file(tmp_path, "127.0.0.1:1")
    outcome = call("owner", "mesh.yaml", "bank-a", "bank-a", "--state", "state")
    assert (outcome.code, outcome.err) == (2, "bank-a: is given twice\n")


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """The command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Commands(capsys)
