"""What the runner keeps for every role: order, durable before sent, one role's end, the newest process."""

from typing import NamedTuple

import pytest

from nodes.protocol import DeadlinePassed, Halt, Identity, StartDeadline
from streams.bus.memory import MemoryBroker, MemoryBus
from streams.codec import Reason, Refused, decode_dead_letter
from streams.runtime.actions import ProcessWorld, at_once, in_memory
from streams.runtime.deadlines import FetchClock, Patience
from streams.runtime.presence import Beacon, Presence
from streams.runtime.process import Failed, ProcessExit
from streams.runtime.runner import BadMessage, Host, Role, Runner
from streams.state.folder import JournalError
from topology.plans import Heartbeat

ON_BUS = ("words", "echoes.a", "echoes.b", "progress.a", "progress.b", "letters")


class Append(NamedTuple):
    text: bytes


class Say(NamedTuple):
    text: bytes


class Think(NamedTuple):
    text: bytes


class Bad(NamedTuple):
    text: bytes


class Echo:
    """Appends and repeats a word; some have a meaning of their own."""

    def __init__(self):
        self.halted = False

    def handle(self, event):
        match event:
            case None:
                return ()
            case DeadlinePassed(number):
                return (Say(b"deadline %d" % number),)
            case b"end" | b"fail":
                self.halted = True
                return (Halt("all is said", failed=event == b"fail"),)
            case b"wait":
                return Say(event), StartDeadline(7)
            case b"think":
                return (Think(event),)
            case b"bad":
                return (Bad(event),)
        return Append(event), Say(event)


class Processes:
    """Processes of echoes on one broker in memory. `commits`: appends that are under way."""

    def __init__(self, *, asynchronous=False):
        self.broker = MemoryBroker(ON_BUS)
        self.bus = MemoryBus(self.broker)
        self.journals, self.ended = {"a": [], "b": []}, {}
        self.runners, self.commits, self.thoughts = {}, [], []
        self.asynchronous = asynchronous
        self.error = None

    def role(self, name, boot="b0", **changes):
        who = Identity(name, "run-1", "aa" * 16, boot * 16)

        def beat():
            return Heartbeat("run-1", name, who.instance, who.boot, 0)

        def append(effect):
            if self.error is not None:
                raise self.error
            self.journals[name].append(effect.text)

        def decoded(read):
            if read.value == b"broken":
                raise Refused(Reason.MALFORMED, "broken")
            return [read.value]

        parts = {
            "machine": Echo(),
            "first": None,
            "presence": Presence(who, "echo", f"progress.{name}", bytes(16), beat),
            "beat": None,
            "offsets": {"words": 0},
            "decode": {"words": decoded},
            "send": {Say: lambda effect: [(f"echoes.{name}", effect.text)]},
            "keep": {Append: append},
            "later": {Think: lambda effect, pending: self.thoughts.append((effect, pending))},
            "evidence": {
                Bad: lambda effect: [BadMessage("words", effect.text, Refused(Reason.SECOND_VALUE))]
            },
            "letters": "letters",
        }
        return Role(**parts | changes)

    def start(self, *names, bus=None, **changes):
        """Start a process of these roles; return its host."""
        bus = bus or self.bus
        world = in_memory(self.broker, bus)
        if self.asynchronous:
            world = ProcessWorld(bus, world.actions, world.clock, world.elsewhere, self.commits.append)
        runners = []
        for name in names:
            role = self.role(name, **changes)
            role.presence.hello(bus, at_once)
            runners.append(Runner(role, world, lambda error, name=name: self.ended.setdefault(name, error)))
            self.runners[name] = runners[-1]
        host = Host(runners, bus)
        host.begin()
        return host

    def say(self, *words):
        for word in words:
            self.bus.send("words", word)
        self.broker.run()

    def log(self, topic):
        return [record.value for record in self.broker.logs[topic].records]


def test_what_is_sent_is_durable_before_and_records_wait_while_an_append_is_under_way():
    processes = Processes(asynchronous=True)
    processes.start("a")
    processes.say(b"one", b"two")
    assert (len(processes.commits), processes.log("echoes.a")) == (1, [])
    processes.commits.pop(0)()
    assert (processes.journals["a"], processes.log("echoes.a")) == ([b"one"], [])  # in its own turn only
    processes.broker.run()
    assert (len(processes.commits), processes.log("echoes.a")) == (1, [b"one"])
    processes.commits.pop(0)()
    processes.broker.run()
    assert processes.log("echoes.a") == processes.journals["a"] == [b"one", b"two"]


def test_while_one_role_waits_for_the_disk_the_other_goes_on():
    processes = Processes(asynchronous=True)
    processes.start("a", "b")
    processes.say(b"one")
    first, second = processes.commits
    second()
    processes.broker.run()
    assert (processes.log("echoes.a"), processes.log("echoes.b")) == ([], [b"one"])
    first()
    processes.broker.run()
    assert processes.log("echoes.a") == [b"one"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_must_be_elsewhere_first_is_waited_for_where_the_append_is_done(asynchronous):
    processes, seconds = Processes(asynchronous=asynchronous), []

    def written():
        assert processes.journals["a"] == processes.log("echoes.a") == []
        processes.broker.now += 5.0  # the append does not take these
        seconds.append("written")

    processes.start("a", written=written, kept=lambda _, took: seconds.append(took))
    processes.say(b"one")
    if asynchronous:
        assert (seconds, processes.journals["a"]) == ([], [])
        processes.commits.pop(0)()
        processes.broker.run()
    assert seconds == ["written", 0.0]
    assert processes.journals["a"] == processes.log("echoes.a") == [b"one"]


def test_events_of_one_record_wait_for_the_append_of_the_first():
    processes = Processes(asynchronous=True)
    processes.start("a", decode={"words": lambda read: [read.value, read.value + b"!"]})
    processes.say(b"one")
    assert len(processes.commits) == 1
    processes.commits.pop(0)()
    processes.broker.run()
    assert (processes.log("echoes.a"), len(processes.commits)) == ([b"one"], 1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_append_that_fails_ends_its_role_and_nothing_is_sent(asynchronous):
    processes = Processes(asynchronous=asynchronous)
    processes.start("a", "b")
    processes.error = JournalError("no space is left")
    processes.say(b"one")
    for commit in processes.commits:
        commit()
    processes.broker.run()
    assert {name: str(error) for name, error in processes.ended.items()} == dict.fromkeys(
        "ab", "no space is left"
    )
    processes.error = None
    processes.say(b"two")
    assert processes.log("echoes.a") == processes.log("echoes.b") == []


@pytest.mark.parametrize(("word", "kind"), [(b"end", ProcessExit), (b"fail", Failed)])
def test_a_role_ends_for_itself(word, kind):
    processes = Processes()
    processes.start("a", offsets={"words": 0})
    processes.start("b", offsets={"words": 1})  # it does not read the first word
    processes.say(word, b"two")
    assert {name: type(error) for name, error in processes.ended.items()} == {"a": kind}
    assert (processes.log("echoes.a"), processes.log("echoes.b")) == ([], [b"two"])


def test_roles_of_one_process_read_each_from_its_own_offset():
    processes = Processes()
    processes.bus.send("words", b"one")
    world = in_memory(processes.broker, processes.bus)
    runners = [
        Runner(processes.role(name, offsets={"words": first}), world, lambda _: None)
        for name, first in (("a", 0), ("b", 1))
    ]
    Host(runners, processes.bus).begin()
    processes.say(b"two")
    assert (processes.log("echoes.a"), processes.log("echoes.b")) == ([b"one", b"two"], [b"two"])


def test_what_is_refused_and_evidence_become_dead_letters():
    processes, refused = Processes(), []
    processes.start("a", refused=lambda topic, why: refused.append((topic, why.reason)))
    processes.say(b"broken", b"bad", b"one")
    letters = [decode_dead_letter(value)[1] for value in processes.log("letters")]
    assert letters == [b"broken", b"bad"]
    assert refused == [("words", Reason.MALFORMED), ("words", Reason.SECOND_VALUE)]
    assert processes.log("echoes.a") == [b"one"]


def test_a_flood_costs_no_turn():
    processes = Processes()
    processes.start("a", floods={"words": lambda value: value != b"flood"})
    processes.runners["a"].queue.do = pytest.fail
    processes.say(b"flood")


def test_a_newer_process_of_the_name_ends_the_older_one():
    processes = Processes()
    processes.start("a")
    processes.broker.run()
    processes.start("a", bus=MemoryBus(processes.broker), boot="b1")
    processes.broker.run()
    assert str(processes.ended["a"]) == (
        "another process of echo a has started after this one, and takes its place"
    )
    processes.say(b"one")
    assert processes.log("echoes.a") == [b"one"]  # of the newer one alone


def test_an_answer_that_comes_later_has_its_own_turn_and_none_after_the_end():
    processes = Processes()
    processes.start("a")
    processes.say(b"think")
    _, pending = processes.thoughts[0]
    pending.answer(lambda: b"thought")
    assert processes.log("echoes.a") == []
    processes.broker.run()
    assert processes.log("echoes.a") == [b"thought"]
    pending.answer(lambda: None)
    processes.say(b"end")
    assert pending.over
    pending.answer(lambda: b"too late")
    processes.broker.run()
    assert processes.log("echoes.a") == [b"thought"]


def test_a_deadline_passes_once_what_was_sent_is_acknowledged_and_peers_are_read():
    processes = Processes()
    processes.start("a", peers=("words",), timeout=1.0, beat=0.5)
    processes.bus.send("words", b"wait")
    while len(processes.log("echoes.a")) < 2:
        assert processes.broker.deliver()
        assert processes.broker.now < 9
    assert processes.log("echoes.a") == [b"wait", b"deadline 7"]
    assert 1.0 <= processes.broker.now < 1.5


def test_unsent_goes_out_first_and_who_has_caught_up_is_told():
    processes, caught_up = Processes(), []
    processes.bus.send("words", b"one")
    processes.start(
        "a",
        unsent=[("echoes.a", b"zero")],
        ends={"words": 1},
        caught_up=lambda: caught_up.extend(processes.log("echoes.a")),
    )
    processes.broker.run()
    assert caught_up == [b"zero", b"one"]


def test_own_heartbeats_and_timers_make_events_and_any_number_of_nameless_processes_run():
    processes = Processes()

    def decoded(read):
        return [b"%s has beaten at %d" % (read.value, read.appended)]

    for name in "ab":
        processes.start(
            name,
            presence=Beacon(name.encode(), "echo", "progress.a"),
            beat=2.0,
            timers=[(3.0, lambda name=name: [b"tick of %s" % name.encode()])],
            decode={"progress.a": decoded},
            offsets={},
        )
    while processes.broker.now < 5.0:
        assert processes.broker.deliver()
    for name in (b"a", b"b"):
        beaten = [b"%s has beaten at %d" % (name, second) for second in (2, 4)]
        echoes = processes.log(f"echoes.{name.decode()}")
        assert echoes[:3] == [beaten[0], b"tick of %s" % name, beaten[1]]
    assert not processes.ended


def test_a_role_may_bring_its_clock():
    processes = Processes()
    clock = FetchClock(lambda: processes.broker.now, 1.0)
    processes.start("a", clock=clock, beat=5.0)
    while processes.broker.now < 4.0:
        assert processes.broker.deliver()
    assert clock.now() == 0.5  # half of its silence: since then no heartbeat was read
    while processes.broker.now < 5.5:
        assert processes.broker.deliver()
    assert clock.now() == 1.0


def test_records_deleted_unread_end_a_role_but_for_topics_that_may_lose_some():
    processes = Processes()
    for word in (b"one", b"two"):
        processes.bus.send("words", word)
    processes.broker.trim("words", 1)
    processes.start("a")
    processes.start("b", lossy=["words"])
    processes.broker.run()
    assert list(processes.ended) == ["a"]
    assert processes.log("echoes.b") == [b"two"]


def test_without_a_topic_of_dead_letters_what_is_refused_is_only_told():
    processes, refused = Processes(), []
    processes.start("a", letters=None, refused=lambda topic, why: refused.append(why.reason))
    processes.say(b"broken", b"one")
    assert (refused, processes.log("letters"), processes.log("echoes.a")) == (
        [Reason.MALFORMED],
        [],
        [b"one"],
    )


def test_an_event_from_outside_is_handled_in_a_turn_and_none_after_the_end():
    processes = Processes(asynchronous=True)
    processes.start("a")
    processes.runners["a"].handle(b"one")
    processes.runners["a"].handle(b"end")
    assert (len(processes.commits), processes.ended) == (1, {})  # it waits for the append
    processes.commits.pop(0)()
    processes.broker.run()
    assert list(processes.ended) == ["a"]
    processes.runners["a"].handle(b"two")
    assert processes.log("echoes.a") == [b"one"]


def test_an_effect_that_settles_cancels_the_deadline():
    processes = Processes()
    settled = []
    processes.start(
        "a",
        peers=("words",),
        timeout=1.0,
        beat=0.5,
        settles=(Think,),
        report={Think: settled.append},
        later={},
    )
    for word in (b"wait", b"think"):
        processes.bus.send("words", word)
    while processes.broker.now < 5.0:
        assert processes.broker.deliver()
    assert settled == [Think(b"think")]
    assert processes.log("echoes.a") == [b"wait"]


class Held:
    """A machine that waits for a few slow peers."""

    held, done = True, False


def test_patience_is_counted_in_turns_and_ends_a_deadline_early():
    processes = Processes()
    clock = FetchClock(lambda: processes.broker.now)
    patience = Patience(2.0, clock.now, Held())
    processes.start("a", peers=("words",), timeout=60.0, beat=0.5, clock=clock, patience=patience)
    processes.bus.send("words", b"wait")
    while len(processes.log("echoes.a")) < 2:
        assert processes.broker.deliver()
        assert processes.broker.now < 9
    assert 2.0 <= processes.broker.now < 2.5


def test_what_the_recovery_has_refused_is_kept_and_who_asks_is_told_of_turns_and_acknowledgements():
    processes, refused, calls = Processes(), [], []
    bad = BadMessage("words", b"old", Refused(Reason.MALFORMED, "broken"))
    processes.start(
        "a",
        refusals=[bad],
        refused=lambda topic, why: refused.append((topic, why.reason)),
        before=lambda: calls.append("turn"),
        acknowledged=lambda: calls.append("acknowledged"),
    )
    processes.say(b"one")
    assert (refused, len(processes.log("letters"))) == ([("words", Reason.MALFORMED)], 1)
    assert calls == ["turn", "turn", "acknowledged"]  # its start, and a word that it repeats
