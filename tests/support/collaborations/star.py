"""A learner and owners in a network that a test chooses: order, repetitions, crashes after any effect."""

from fractions import Fraction

import numpy as np

from nodes.collaboration.learner import LearnerMachine
from nodes.collaboration.messages import (
    JournalQuery,
    JournalResponse,
    LearnerStarted,
    OwnerStarted,
    QueryArrived,
    ReadSet,
    RecordSet,
    ResponseArrived,
    SendQuery,
    SendResponse,
    SetRead,
)
from nodes.collaboration.owner import OwnerMachine
from nodes.collaboration.steps import Averaged
from nodes.geometry.constraints import L2Ball
from nodes.losses.evaluation import slot_gradients
from nodes.losses.losses import Squared
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.private import Private
from nodes.privacy.query import QueryMechanism
from nodes.protocol import Identity
from nodes.values import Observations

D, QUERIES = 2, 4
SIZES = {"a": 5, "b": 7, "c": 3}


def records(owner: str) -> Observations:
    """The owner's records: always the same."""
    random = np.random.default_rng(ord(owner))
    n = SIZES[owner]
    return Observations(random.normal(size=(n, D)), random.normal(size=n), np.ones(n, np.bool_))


def mechanism(owner: str, sampler=None, **changes) -> QueryMechanism:
    """The owner's mechanism, with simulated noise unless a sampler is given."""
    options = {
        "name": "laplace",
        "gradient_bound": 1.0,
        "epsilon": Fraction(8),
        "delta": 0.0,
        "queries": QUERIES,
        "sharing": 1,
        "records": SIZES[owner],
        "dimension": D,
        "sampler": sampler or SimulatedSampler(7, owner),
    }
    return QueryMechanism(**options | changes)


def own_set(owner: str) -> RecordSet:
    return RecordSet('{"source":"of the test"}', (("bytes", 100),), SIZES[owner])


def summed(made: QueryMechanism, owner: str, parameters) -> Private:
    """The sum of the owner's clipped gradients, in two chunks."""
    whole = records(owner)
    total = made.begin()
    for part in (slice(None, 2), slice(2, None)):
        total = made.add(
            total, Private(slot_gradients(Squared(), parameters, Observations(*(x[part] for x in whole))))
        )
    return total


class Crashed(Exception):
    """The process died."""


class Owner:
    """An owner's process: machine, journal and pass."""

    def __init__(self, name: str, star: "Star") -> None:
        self.name, self.star, self.journal, self.lives = name, star, [], 0
        self.start()

    def start(self) -> None:
        self.lives += 1
        self.mechanism = mechanism(self.name)
        self.machine = OwnerMachine(Identity(self.name, "r", "o" * 32), "l", self.mechanism)
        self.take(OwnerStarted(own_set(self.name), tuple(self.journal)))

    def take(self, event) -> None:
        waiting = [event]
        while waiting:
            for effect in self.machine.handle(waiting.pop(0)):
                self.star.may_crash()
                match effect:
                    case ReadSet(number, parameters):
                        total = summed(self.mechanism, self.name, parameters)
                        waiting.append(SetRead(number, own_set(self.name), total))
                    case JournalResponse(record):
                        self.journal.append(record)
                    case SendResponse(response):
                        self.star.responses.append(response)
                        self.star.to_learner.append(response)
                self.star.may_crash()


class Learner:
    """The learner's process: machine and journal."""

    def __init__(self, star: "Star") -> None:
        self.star, self.journal, self.lives = star, [], 0
        self.start()

    def start(self) -> None:
        self.lives += 1
        step = Averaged(L2Ball(D, 5.0), QUERIES, 0.5, 0.1)
        self.machine = LearnerMachine(Identity("l", "r", "e" * 32), step, SIZES)
        self.take(LearnerStarted(tuple(self.journal[-1:])))

    def take(self, event) -> None:
        for effect in self.machine.handle(event):
            self.star.may_crash()
            match effect:
                case JournalQuery(record):
                    self.journal.append(record)
                case SendQuery(query):
                    self.star.queries.append(query)
                    for name in SIZES:
                        self.star.to_owner[name].append(query)
            self.star.may_crash()


class Star:
    """The whole star. `choose(n)`, the test's, returns a number below n; `crashes`: how many at most."""

    def __init__(self, choose=lambda n: n - 1, crashes: int = 0) -> None:
        self.choose, self.crashes = choose, 0
        self.queries, self.responses, self.to_learner = [], [], []
        self.to_owner = {name: [] for name in SIZES}
        self.owners = {name: Owner(name, self) for name in SIZES}
        self.learner = Learner(self)
        self.crashes = crashes

    def may_crash(self) -> None:
        if self.crashes and self.choose(12) == 0:
            self.crashes -= 1
            raise Crashed

    def run(self) -> "Star":
        """Deliver until the learner is done, and the owners know."""
        while not (self.learner.machine.halted and all(one.machine.halted for one in self.owners.values())):
            names = [name for name in SIZES if self.to_owner[name] and not self.owners[name].machine.halted]
            places = [*names, *(["learner"] if self.to_learner else [])]
            assert places, "nothing is on its way, and the run is not over"
            self.deliver(places[self.choose(len(places))])
        return self

    def deliver(self, place: str) -> None:
        if place == "learner":
            process, log = self.learner, self.to_learner
            event = ResponseArrived(log.pop(0))
        else:
            process, log = self.owners[place], self.to_owner[place]
            event = QueryArrived(log.pop(0))
        if process.machine.halted:
            return
        if self.choose(8) == 0:
            log.insert(self.choose(len(log) + 1), event[0])  # it comes again, whenever
        try:
            process.take(event)
        except Crashed:
            self.restart(process)

    def restart(self, process) -> None:
        """Begin again from the journal, with all of its log to read."""
        if isinstance(process, Learner):
            self.to_learner[:] = self.responses
        else:
            self.to_owner[process.name][:] = self.queries
        try:
            process.start()
        except Crashed:
            self.restart(process)
