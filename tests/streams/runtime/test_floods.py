"""Lines of what others send: few, and their sum is exact."""

import logging
import re

from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import Notice
from nodes.protocol import Noticed
from streams.codec import Reason, Refused
from streams.live.hosted_node import NodeWatcher
from streams.runtime.floods import PERIOD, Summed
from tests.support.nodes.machines import learner
from tests.support.nodes.metrics import metrics


class Lines(logging.Logger):
    """A logger that keeps its lines."""

    def __init__(self):
        super().__init__("lines", logging.INFO)
        self.said = []

    def handle(self, record):
        self.said.append(record.getMessage())


def summed_up(lines):
    """How many of each kind the lines tell."""
    found = {}
    for line in lines:
        kind, _, more = line.partition(" (")
        found[kind] = found.get(kind, 0) + (int(re.match(r"(\d+) more in \d+ s\)", more)[1]) if more else 1)
    return found


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.0, 0.0, 0.5, 4.0, 25.0])), max_size=60
)


@given(STEPS)
def test_few_lines_tell_of_all(steps):
    now, log = [0.0], Lines()
    summed = Summed(log, clock=lambda: now[0])
    for kind, seconds in steps:
        summed.say(logging.WARNING, kind, f"kind {kind}")
        now[0] += seconds
        summed.catch_up()
    summed.end()
    sent = [kind for kind, _ in steps]
    assert summed_up(log.said) == {f"kind {kind}": sent.count(kind) for kind in set(sent)}
    assert len(log.said) <= 3 * (now[0] / PERIOD + 2)


def test_a_flood_of_refusals_is_a_line_in_ten_seconds_and_the_sum_is_exact():
    log = Lines()
    figures = metrics(learner(), sources="ab")
    watcher = NodeWatcher(log, figures, None, None)
    for number in range(50_000):
        watcher.refused("edge.b.a", Refused(Reason.LENGTH if number % 3 else Reason.RUN))
        watcher.report(Noticed(Notice.OVERFULL, "b", number))
    watcher.left()
    told = summed_up(log.said)
    assert (
        sum(count for kind, count in told.items() if kind.startswith("a record of a peer was refused"))
        == 50_000
    )
    assert told["a record of a peer was refused: run"] == 16_667
    assert len(log.said) < 20
    assert sum(count for kind, count in told.items() if kind.startswith("b sends far ahead")) == 50_000


def test_what_a_node_does_itself_is_told_each_time():
    log = Lines()
    watcher = NodeWatcher(log, metrics(learner(), sources="ab"), None, None)
    for round in (3, 4):
        watcher.report(Noticed(Notice.JOINING, "a", round))
    assert log.said == ["a asks to join after round 3", "a asks to join after round 4"]
