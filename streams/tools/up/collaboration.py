"""`mirrormesh up` of a collaboration: brokers, topics, the learner and the owners that are here,
and the end.
"""

import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from streams.bus.bus import BusError
from streams.bus.provision import provision
from streams.collaboration.file import CollaborationFile
from streams.ledger import known_spends
from streams.mesh.errors import UsageError
from streams.runtime.process import ProcessStopped, Stop, Unmendable
from streams.state.folder import StateFolder
from streams.state.spends_topic import written
from streams.status.status_poller import look
from streams.terminal.collaboration import line
from streams.terminal.report import say, say_promises
from streams.terminal.text import counted, listed
from streams.tools.up.children import Child, end_all
from streams.tools.up.programs import Program
from streams.tools.up.services import StartedBroker, ensure_brokers
from streams.tools.up.up import alone

PERIOD = 0.25
"""Seconds between two checks of the processes."""
_UNMENDABLE = Unmendable.exit_code
LINES = 5.0
"""Seconds between two lines on the progress."""


def programs(
    file: CollaborationFile, state: Path, metrics_from: int | None, *, other_data: bool = False
) -> list[Program]:
    """Return the programs of the learner and of each owner whose own part is here.

    Ports of metrics begin at that port.
    """
    stated = ("--other-data",) * other_data
    state_option = ("--state", str(state))
    served = () if metrics_from is None else ("--metrics", str(metrics_from))
    listed_programs = [
        Program("learner", ("learner", str(file.path), *state_option, *served), (0, _UNMENDABLE))
    ]
    for place, name in enumerate(file.owners):
        ports: tuple[str, ...] = ()
        if metrics_from is not None:
            first = metrics_from + 1 + 2 * place
            ports = ("--metrics", str(first), "--private-metrics", str(first + 1))
        listed_programs.append(
            Program(f"owner {name}", ("owner", str(file.path), name, *state_option, *ports, *stated))
        )
    return listed_programs


def up_collaboration(
    file: CollaborationFile,
    state: Path,
    console: Console,
    stop: Stop,
    metrics_from: int | None = None,
    *,
    other_data: bool = False,
) -> None:
    """Run the learner and the owners here until the learner is done, or until asked to stop.

    Raises MeshFileError, Differs, BusError, BrokerError, JournalError; UsageError if theta diverges. No
    process is then left running.
    """

    def fact(name: str, text: str) -> None:
        say(console, f"{name:<10} {text}")

    if not file.owners:
        raise file.refuse(("owners",), "missing: the own part of one owner at least must be here")
    folder = StateFolder(state)
    with ExitStack() as closing:
        closing.enter_context(alone(state))
        fact("state", str(state))
        try:
            brokers = ensure_brokers(file, state, stop, fact, closing)
        except ProcessStopped:
            return
        sides = provision(file)
        created, existing = (
            sum(len(side.created) for side in sides),
            sum(len(side.existing) for side in sides),
        )
        fact("topics", f"made {created}, found right {existing}")
        folder.logs.mkdir(exist_ok=True)
        children = [
            Child(program, folder.log(program.label), lambda text: say(console, text, "bold red"))
            for program in programs(file, state, metrics_from, other_data=other_data)
        ]
        closing.callback(end_all, tuple(children))
        fact("processes", f"1 learner, {counted(len(file.owners), 'owner')}; logs in {folder.logs}")
        absent_owners = [name for name in file.mesh.owners if name not in file.owners]
        if absent_owners:
            fact("elsewhere", f"{listed(absent_owners)}: run by their owners")
        fact("Ctrl-C", "ends everything in order; the same command continues from there")
        over, learner = _watch(file, children, brokers, console, stop), children[0]
        failed = learner.log.last if learner.done and learner.code else ""
        answered = "the learner cannot continue" if failed else "all queries are answered"
        fact("ending", answered if over else "as asked")
        spends = written(file, file.owners)  # a broker of this `up` ends with it
    fact("budget", f"mirrormesh budget {file.path} --state {state}")
    fact("model", f"mirrormesh model {file.path} --state {state} --output DIR")
    say_promises(console, file, known_spends(file, file.owners, state, spends))
    if failed:
        raise UsageError(failed)


def _watch(
    file: CollaborationFile, children: list[Child], kept: list[StartedBroker], console: Console, stop: Stop
) -> bool:
    """Keep all programs running.

    Return whether the run is over: all have ended, or the learner cannot continue.
    """
    last_text, due, learner = "", 0.0, children[0]
    while not stop.asked.is_set():
        for child in children:
            child.look()
            child.log.read()
        for broker in kept:
            broker.look()
        over = all(child.done for child in children) or (learner.done and learner.code != 0)
        if over or time.monotonic() >= due:
            due = time.monotonic() + LINES
            now = _line(file)
            if now != last_text:
                last_text = now
                say(console, now)
        if over:
            return True
        stop.asked.wait(PERIOD)
    return False


def _line(file: CollaborationFile) -> str:
    try:
        return line(file.mesh, look(file))
    except BusError as error:
        return str(error)
