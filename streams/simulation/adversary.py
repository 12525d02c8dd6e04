"""The adversary: makes each kind of fault happen in a world, and stops all but what stays broken for ever."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from streams.codec import Refused
from streams.simulation.faults import LIES, Fault, Kind
from streams.simulation.lies import Liar
from streams.simulation.node import SimulatedNode
from streams.simulation.scheduler import SimulatedScheduler
from streams.simulation.stage import Scene
from streams.simulation.stranger import Stranger
from streams.simulation.world import World
from topology.plans import Plan

RUNS = 0.15
"""Seconds that a slow process runs before it stands still again."""
LATER = 0.2
"""Seconds until a fault is tried again that met a process while it started."""


class Adversary:
    """The faults of one world. `broken`: nodes that stay broken for ever."""

    def __init__(self, scene: Scene) -> None:
        self.world = World(scene, self.strike)
        self.broken: set[str] = set()
        self.calmed = False
        self._liar, self._stranger = Liar(self.world), Stranger(self.world)
        self._struck: dict[Kind, Callable[[Fault], None]] = {
            Kind.DELAY: self._delay,
            Kind.CUT_OFF: partial(self._cut, deaf=True, mute=True),
            Kind.DEAF: partial(self._cut, deaf=True),
            Kind.MUTE: partial(self._cut, mute=True),
            Kind.CRASH: self._crash,
            Kind.PAUSE: self._pause,
            Kind.SLOW: self._slow,
            Kind.CLONE: self._clone,
            Kind.OLD_JOURNAL: self._old_journal,
            Kind.TORN_JOURNAL: self._torn_journal,
            Kind.LOST_JOURNAL: self._lost_journal,
            Kind.FULL_DISK: self._full_disk,
            Kind.LOST_RELEASES: self._lost_releases,
            Kind.LOST_BEATS: self._lost_beats,
            Kind.LOST_PLANS: self._lost_plans,
            Kind.SCHEDULER_CRASH: self._scheduler_crash,
            Kind.SCHEDULER_PAUSE: self._scheduler_pause,
            Kind.SECOND_SCHEDULER: self._second_scheduler,
            Kind.FAST_CLOCK: self._fast_clock,
            Kind.CLOCK_AHEAD: self._clock_ahead,
            Kind.STRANGER: self._stranger.forge,
            Kind.DEAD: self._dead,
            Kind.MUTE_FOREVER: self._mute_forever,
            Kind.STUCK_FOREVER: self._stuck_forever,
        }

    def strike(self, fault: Fault) -> None:
        """Begin a fault."""
        if self.calmed or fault.kind is Kind.DISORDER:
            return
        if fault.kind is Kind.STRANGER and not self.world.scene.parts.planner.signs:
            return  # without signatures anybody may speak for anybody
        node = self.world.nodes[fault.who]
        if node.starting:
            self._after(LATER, partial(self.strike, fault))
            return
        if node.halted or fault.who in self.broken:
            return
        self.world.history.note("adversary", fault.kind, f"{fault.who}, {fault.seconds:g} s, {fault.amount}")
        if fault.kind in LIES:
            self._liar.lie(fault)
        else:
            self._struck[fault.kind](fault)

    def calm(self) -> None:
        """Stop every fault, start every process, but for what is broken for ever."""
        world = self.world
        self.calmed = True
        world.history.note("adversary", "stops", f"but {', '.join(sorted(self.broken)) or 'nothing'}")
        world.broker.calm()
        world.facts.partitions = 0
        for scheduler in world.schedulers:
            scheduler.speed, scheduler.wrong, scheduler.current = 1.0, 0.0, None
            scheduler.resume()
            scheduler.link.heal(deaf=True, mute=True)
            scheduler.start()
        for node in world.processes:
            if node.name not in self.broken:
                node.journal.full = False
                node.resume()
                node.link.heal(deaf=True, mute=True)
                node.start()

    # --------------------------------------------------------------------------------------- connections

    def _delay(self, fault: Fault) -> None:
        world, topics = self.world, self.world.scene.parts.topics
        delayed = [topic for topic, (source, _) in world.facts.edges.items() if source == fault.who]
        if fault.amount % 5 == 0:
            delayed = [topics.progress(fault.who)]
        elif fault.amount % 7 == 0:
            delayed = [topics.topology]
        latency = world.broker.latency
        latency.update(dict.fromkeys(delayed, fault.amount / 10))

        def on_time() -> None:
            for topic in delayed:
                latency.pop(topic, None)

        self._after(fault.seconds, on_time)

    def _cut(self, fault: Fault, *, deaf: bool = False, mute: bool = False) -> None:
        node = self.world.nodes[fault.who]
        node.link.cut(deaf=deaf, mute=mute)
        self.world.facts.partitions += 1

        def heal() -> None:
            if self.calmed:
                return
            self.world.facts.partitions -= 1
            if fault.who not in self.broken:
                node.link.heal(deaf=deaf, mute=mute)

        self._after(fault.seconds, heal)

    # ----------------------------------------------------------------------------------------- processes

    def _crash(self, fault: Fault) -> None:
        self.world.nodes[fault.who].crash_in(fault.amount, fault.seconds)

    def _pause(self, fault: Fault) -> None:
        node = self.world.nodes[fault.who]
        node.pause()
        self._after(fault.seconds, node.resume)

    def _slow(self, fault: Fault) -> None:
        """Let a node stand still for most of each of `amount` periods."""
        node = self.world.nodes[fault.who]
        if self.calmed or node.halted:
            return
        node.pause()

        def run() -> None:
            node.resume()
            if fault.amount > 1:
                self._after(RUNS, partial(self._slow, fault._replace(amount=fault.amount - 1)))

        self._after(fault.seconds, run)

    def _dead(self, fault: Fault) -> None:
        self._break(fault.who)
        for node in self._processes(fault.who):
            node.wanted = False
            node.end("killed for ever")

    def _mute_forever(self, fault: Fault) -> None:
        self._break(fault.who)
        for node in self._processes(fault.who):
            node.link.cut(mute=True)

    def _stuck_forever(self, fault: Fault) -> None:
        shell = self.world.nodes[fault.who].shell
        self._dead(fault)
        if shell is not None:
            self._liar.beat_for_ever(shell.machine.heartbeat)

    # ------------------------------------------------------------------------------------------ journals

    def _clone(self, fault: Fault) -> None:
        world = self.world
        journal = world.nodes[fault.who].journal.copied()
        world.facts.clones[fault.who] += 1
        if fault.amount:
            journal.renew(world.new_id())
        world.add(fault.who, journal).start()

    def _old_journal(self, fault: Fault) -> None:
        node = self.world.nodes[fault.who]
        node.end("its journal is replaced by an older one", fault.seconds)
        node.journal.lose(fault.amount)
        self.world.facts.rolled_back.add(fault.who)

    def _torn_journal(self, fault: Fault) -> None:
        node = self.world.nodes[fault.who]
        node.end("the power fails, and the disk has lost a record", fault.seconds)
        node.journal.lose(1)
        self.world.facts.rolled_back.add(fault.who)

    def _lost_journal(self, fault: Fault) -> None:
        node = self.world.nodes[fault.who]
        node.end("its folder is lost", fault.seconds)
        node.journal = self.world.new_journal()
        self.world.facts.rolled_back.add(fault.who)

    def _full_disk(self, fault: Fault) -> None:
        journal = self.world.nodes[fault.who].journal
        journal.full = True

        def freed() -> None:
            journal.full = False

        self._after(fault.seconds, freed)

    # -------------------------------------------------------------------------------------------- topics

    def _lost_releases(self, fault: Fault) -> None:
        edges = [topic for topic, (source, _) in self.world.facts.edges.items() if source == fault.who]
        self._forget(edges[fault.at % len(edges)], fault.amount)

    def _lost_beats(self, fault: Fault) -> None:
        self._forget(self.world.scene.parts.topics.progress(fault.who), fault.amount)

    def _lost_plans(self, fault: Fault) -> None:
        topology = self.world.scene.parts.topics.topology
        records = self.world.broker.logs[topology].records
        self._forget(topology, max(0, min(fault.amount, len(records) - 1 - self._kept_to())))
        self.world.watch.plans_lost(records)

    def _kept_to(self) -> int:
        """Return the offset up to which plans are never lost: that of the first ones, and of clocks ahead.

        Without any plan the mesh waits for all nodes. Were one lost by which a clock ahead skips rounds, its
        members would wait for their round, and hold all others back until that clock is right.
        """
        facts, stored = self.world.facts, self.world.broker.logs[self.world.scene.parts.topics.topology]
        kept, found = 0, False
        for one in stored.records:
            with suppress(Refused):
                plans = facts.record(one.value, one.appended).plans
                if not found or any(map(_skips, plans)):
                    kept, found = one.offset, True
        return kept

    def _forget(self, topic: str, count: int) -> None:
        self.world.facts.forgotten.add(topic)
        lost = self.world.broker.forget(topic, count)
        self.world.history.note("broker", "forgets", f"{lost} records of {topic.split('.', 2)[-1]}")

    # ---------------------------------------------------------------------------------------- schedulers

    def _scheduler_crash(self, fault: Fault) -> None:
        self.world.schedulers[fault.at % len(self.world.schedulers)].end("killed", fault.seconds)

    def _scheduler_pause(self, fault: Fault) -> None:
        scheduler = self.world.schedulers[fault.at % len(self.world.schedulers)]
        scheduler.pause()
        self._after(fault.seconds, scheduler.resume)

    def _second_scheduler(self, fault: Fault) -> None:
        scheduler = self.world.add_scheduler()
        scheduler.start()

        def end() -> None:
            scheduler.wanted = False
            scheduler.end("ends")

        self._after(fault.seconds, end)

    def _fast_clock(self, fault: Fault) -> None:
        scheduler = self.world.schedulers[-1]
        scheduler.speed = float(fault.amount)
        self._after(fault.seconds, partial(setattr, scheduler, "speed", 1.0))

    def _clock_ahead(self, fault: Fault) -> None:
        facts, scheduler = self.world.facts, self.world.schedulers[-1]
        clock = self.world.scene.parts.clock
        if clock is not None:
            self._wrong_clock(scheduler, fault, clock.period)
            return
        slowest = min(facts.stepped.values(), default=0)
        scheduler.current = slowest + self.world.scene.setting.horizon + fault.amount
        facts.ahead = max(facts.ahead, scheduler.current)
        self._after(fault.seconds, partial(setattr, scheduler, "current", None))

    def _wrong_clock(self, scheduler: SimulatedScheduler, fault: Fault, period: float) -> None:
        """Put a clock that slots follow ahead, or back, by up to four times as many slots as H."""
        ahead = 1 if fault.amount % 3 else -1
        scheduler.wrong = ahead * fault.amount * period * self.world.scene.setting.horizon / 3
        self._after(fault.seconds, partial(setattr, scheduler, "wrong", 0.0))

    # ---------------------------------------------------------------------------------------------------

    def _break(self, name: str) -> None:
        self.broken.add(name)

    def _processes(self, name: str) -> list[SimulatedNode]:
        return [node for node in self.world.processes if node.name == name]

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self.world.broker.after(seconds, action)


def _skips(plan: Plan) -> bool:
    return plan.round > plan.follows + 1 and any(member.full for member in plan.members)
