"""The adversary. It makes each kind of fault happen in a world, and stops all faults but lasting ones."""

from collections.abc import Callable
from functools import partial

from streams.local.mesh import MeshParts
from streams.simulation.faults import LIES, ON_DISKS, FaultKind, InjectedFault
from streams.simulation.history import Reached
from streams.simulation.lies import Liar, Stranger
from streams.simulation.node import SimulatedNode
from streams.simulation.scheduler import SimulatedScheduler
from streams.simulation.stage import Scene
from streams.simulation.world import World

RUNS = 0.15
"""Seconds for which a slow process runs between two stops."""
LATER = 0.2
"""Seconds after which a fault is tried again if its process was starting."""


def plans_late(world: World, seconds: float) -> None:
    """Record that plans may come late for this many seconds."""
    world.excuses.late_until = max(world.excuses.late_until, world.broker.now + seconds)


class JournalFaults:
    """The faults of the journals of one world, and of the disks under them."""

    def __init__(self, world: World) -> None:
        self.world = world

    def clone(self, fault: InjectedFault) -> None:
        """Start a process with a copy of a node's journal. With an amount, the copy has an id of its own."""
        world = self.world
        journal = world.nodes[fault.who].journal.copied()
        world.excuses.clones[fault.who] += 1
        world.watch.copied(world.nodes[fault.who].journal, journal)
        if fault.amount:
            journal.renew(world.new_id())
        world.add(fault.who, journal).process.start()

    def old_journal(self, fault: InjectedFault) -> None:
        """Replace a journal by an older copy."""
        node = self.world.nodes[fault.who]
        node.process.end("its journal is replaced by an older one", fault.seconds)
        self._lose(node, fault.amount)

    def torn_journal(self, fault: InjectedFault) -> None:
        """Let the power fail on a disk that loses the journal's last record."""
        node = self.world.nodes[fault.who]
        node.process.end("the power fails, and the disk has lost a record", fault.seconds)
        self._lose(node, 1)

    def _lose(self, node: SimulatedNode, count: int) -> None:
        self.world.watch.restored(node.journal, node.journal.lose(count))
        self.world.excuses.rolled_back.add(node.name)

    def power_failure(self, fault: InjectedFault) -> None:
        """Let the power fail for all nodes of a process."""
        process = self.world.nodes[fault.who].process
        for node in process.nodes:
            node.journal.fail_power()
        process.end("the power fails", fault.seconds)

    def damaged_journal(self, fault: InjectedFault) -> None:
        """Damage a journal's file."""
        node = self.world.nodes[fault.who]
        node.process.end("its journal is damaged", fault.seconds)
        behind = node.journal.spoil()
        if behind is None:
            self.world.history.reached.add(Reached.DAMAGED)
            self.lost_journal(fault)
        elif behind:
            self.world.watch.restored(node.journal, behind)
            self.world.excuses.rolled_back.add(fault.who)

    def lost_journal(self, fault: InjectedFault) -> None:
        """Lose a node's folder."""
        node = self.world.nodes[fault.who]
        node.process.end("its folder is lost", fault.seconds)
        node.journal.remove()
        node.journal = self.world.new_journal(fault.who)
        self.world.excuses.rolled_back.add(fault.who)

    def full_disk(self, fault: InjectedFault) -> None:
        """Let a disk be full for some time."""
        journal = self.world.nodes[fault.who].journal
        journal.full = True

        def freed() -> None:
            journal.full = False

        self.world.broker.after(fault.seconds, freed)


class SchedulerFaults:
    """The faults of the schedulers of one world, and of the schedulers' clocks."""

    def __init__(self, world: World) -> None:
        self.world = world

    def scheduler_crash(self, fault: InjectedFault) -> None:
        """Kill a scheduler, at once or at its next effect."""
        scheduler = self.world.schedulers[fault.at % len(self.world.schedulers)]
        if fault.at % 3:
            scheduler.end("killed", fault.seconds)
        else:
            scheduler.crash_in(1, fault.seconds)

    def scheduler_pause(self, fault: InjectedFault) -> None:
        """Stop a scheduler's process for some time."""
        scheduler = self.world.schedulers[fault.at % len(self.world.schedulers)]
        scheduler.pause()
        plans_late(self.world, fault.seconds)
        self.world.broker.after(fault.seconds, scheduler.resume)

    def second_scheduler(self, fault: InjectedFault) -> None:
        """Let a second scheduler work beside the first.

        In half of the cases plans come late, and each scheduler plans before it has read the other's plans.
        """
        if fault.at % 2:
            topology = self.world.scene.parts.topics.topology
            plans_late(self.world, fault.seconds + fault.at % 8 / 10)
            self.world.broker.latency[topology] = fault.at % 8 / 10

            def on_time() -> None:
                self.world.broker.latency.pop(topology, None)

            self.world.broker.after(fault.seconds, on_time)
        self.passing(self.world.add_scheduler(), fault.seconds)

    def passing(self, scheduler: SimulatedScheduler, seconds: float) -> None:
        """Let a further scheduler work for some time."""
        scheduler.start()

        def end() -> None:
            scheduler.wanted = False
            scheduler.end("ends")

        self.world.broker.after(seconds, end)

    def fast_clock(self, fault: InjectedFault) -> None:
        """Let a scheduler's clock run fast."""
        scheduler = self.world.schedulers[-1]
        scheduler.speed = float(fault.amount)
        self.world.broker.after(fault.seconds, partial(setattr, scheduler, "speed", 1.0))

    def clock_ahead(self, fault: InjectedFault) -> None:
        """Put a scheduler's clock ahead of the rounds, or of the slots by time."""
        oracle, scheduler = self.world.watch.oracle, self.world.schedulers[-1]
        clock = self.world.scene.parts.clock
        if clock is not None:
            self._wrong_clock(scheduler, fault, clock.period)
            return
        slowest = min(oracle.stepped.values(), default=0)
        scheduler.current = slowest + self.world.scene.setting.horizon + fault.amount
        oracle.excuses.ahead = max(oracle.excuses.ahead, scheduler.current)
        self.world.broker.after(fault.seconds, partial(setattr, scheduler, "current", None))

    def _wrong_clock(self, scheduler: SimulatedScheduler, fault: InjectedFault, period: float) -> None:
        """Move a clock that slots follow forwards or backwards, by up to four times the time of H slots."""
        ahead = 1 if fault.amount % 3 else -1
        scheduler.wrong = ahead * fault.amount * period * self.world.scene.setting.horizon / 3
        self.world.broker.after(fault.seconds, partial(setattr, scheduler, "wrong", 0.0))


class Adversary:
    """The faults of one world. `broken`: nodes that remain broken to the end of the history."""

    def __init__(self, scene: Scene) -> None:
        self.world = World(scene, self.strike)
        self.broken: set[str] = set()
        self.calmed = False
        self._liar, self._stranger = Liar(self.world), Stranger(self.world)
        self._schedulers, disks = SchedulerFaults(self.world), JournalFaults(self.world)
        self._struck: dict[FaultKind, Callable[[InjectedFault], None]] = {
            FaultKind.DELAY: self._delay,
            FaultKind.CUT_OFF: partial(self._cut, deaf=True, mute=True),
            FaultKind.DEAF: partial(self._cut, deaf=True),
            FaultKind.MUTE: partial(self._cut, mute=True),
            FaultKind.CRASH: self._crash,
            FaultKind.PAUSE: self._pause,
            FaultKind.STOPPED: self._stop,
            FaultKind.SLOW: self._slow,
            FaultKind.CLONE: disks.clone,
            FaultKind.OLD_JOURNAL: disks.old_journal,
            FaultKind.TORN_JOURNAL: disks.torn_journal,
            FaultKind.LOST_JOURNAL: disks.lost_journal,
            FaultKind.POWER_FAILURE: disks.power_failure,
            FaultKind.DAMAGED_JOURNAL: disks.damaged_journal,
            FaultKind.FULL_DISK: disks.full_disk,
            FaultKind.LOST_RELEASES: self._lost_releases,
            FaultKind.LOST_BEATS: self._lost_beats,
            FaultKind.LOST_PLANS: self._lost_plans,
            FaultKind.SCHEDULER_CRASH: self._schedulers.scheduler_crash,
            FaultKind.SCHEDULER_PAUSE: self._schedulers.scheduler_pause,
            FaultKind.SECOND_SCHEDULER: self._schedulers.second_scheduler,
            FaultKind.FAST_CLOCK: self._schedulers.fast_clock,
            FaultKind.CLOCK_AHEAD: self._schedulers.clock_ahead,
            FaultKind.STRANGER: self._stranger.forge,
            FaultKind.LEAVES: self._leaves,
            FaultKind.NEW_FILE: self._new_file,
            FaultKind.OLD_FILE: self._old_file,
            FaultKind.REPLAY: self._stranger.replay,
            FaultKind.DEAD: self._dead,
            FaultKind.MUTE_FOREVER: self._mute_forever,
            FaultKind.STUCK_FOREVER: self._stuck_forever,
        }

    def strike(self, fault: InjectedFault) -> None:
        """Begin a fault."""
        if self.calmed or fault.kind is FaultKind.DISORDER:
            return
        if fault.kind in {FaultKind.STRANGER, FaultKind.REPLAY} and not self.world.scene.parts.planner.signs:
            return  # without signatures anybody may send messages in another's name
        if fault.kind in ON_DISKS and not self.world.scene.setting.on_disks:
            return
        node = self.world.nodes.get(fault.who)
        if node is None:
            return  # the node is in a newer mesh file, which is not used yet
        if node.process.starting:
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
        """Stop every fault and start every process, except for nodes that remain broken."""
        world = self.world
        self.calmed = True
        world.history.note("adversary", "stops", f"but {', '.join(sorted(self.broken)) or 'nothing'}")
        world.broker.calm()
        world.excuses.partitions = 0
        world.excuses.calm_at = world.broker.now
        for scheduler in world.schedulers:
            scheduler.speed, scheduler.wrong, scheduler.current = 1.0, 0.0, None
            scheduler.resume()
            scheduler.link.heal(deaf=True, mute=True)
            scheduler.start()
        for node in world.processes:
            if node.name not in self.broken:
                node.journal.full = False
                node.process.resume()
                node.process.link.heal(deaf=True, mute=True)
                node.process.start()

    # --------------------------------------------------------------------------------------- connections

    def _delay(self, fault: InjectedFault) -> None:
        world, topics = self.world, self.world.scene.parts.topics
        delayed = [topic for topic, (source, _) in world.edges.items() if source == fault.who]
        if fault.amount % 5 == 0:
            delayed = [topics.progress(fault.who)]
        elif fault.amount % 7 == 0:
            delayed = [topics.topology]
            plans_late(self.world, fault.seconds + fault.amount / 10)
        latency = world.broker.latency
        latency.update(dict.fromkeys(delayed, fault.amount / 10))

        def on_time() -> None:
            for topic in delayed:
                latency.pop(topic, None)

        self._after(fault.seconds, on_time)

    def _cut(self, fault: InjectedFault, *, deaf: bool = False, mute: bool = False) -> None:
        process = self.world.nodes[fault.who].process
        process.link.cut(deaf=deaf, mute=mute)
        self.world.excuses.partitions += 1

        def heal() -> None:
            if self.calmed:
                return
            self.world.excuses.partitions -= 1
            if not any(node.name in self.broken for node in process.nodes):
                process.link.heal(deaf=deaf, mute=mute)

        self._after(fault.seconds, heal)

    # ----------------------------------------------------------------------------------------- processes

    def _crash(self, fault: InjectedFault) -> None:
        self.world.nodes[fault.who].crash_in(fault.amount, fault.seconds)

    def _pause(self, fault: InjectedFault) -> None:
        node = self.world.nodes[fault.who]
        node.process.pause()
        self._after(fault.seconds, node.process.resume)

    def _stop(self, fault: InjectedFault) -> None:
        self.world.nodes[fault.who].process.stop(fault.seconds)

    def _slow(self, fault: InjectedFault) -> None:
        """Stop a node for most of each of `amount` periods."""
        node = self.world.nodes[fault.who]
        if self.calmed or node.halted:
            return
        node.process.pause()

        def run() -> None:
            node.process.resume()
            if fault.amount > 1:
                self._after(RUNS, partial(self._slow, fault._replace(amount=fault.amount - 1)))

        self._after(fault.seconds, run)

    def _dead(self, fault: InjectedFault) -> None:
        self._break(fault.who)
        for node in self._processes(fault.who):
            node.process.part(node)
            node.wanted = False
            node.process.end("killed for ever")

    def _mute_forever(self, fault: InjectedFault) -> None:
        self._break(fault.who)
        for node in self._processes(fault.who):
            node.process.part(node)
            node.process.link.cut(mute=True)

    def _stuck_forever(self, fault: InjectedFault) -> None:
        role = self.world.nodes[fault.who].role
        self._dead(fault)
        if role is not None:
            self._liar.beat_for_ever(role.machine.heartbeat)

    # -------------------------------------------------------------------------------------------- topics

    def _lost_releases(self, fault: InjectedFault) -> None:
        edges = [topic for topic, (source, _) in self.world.edges.items() if source == fault.who]
        self._forget(edges[fault.at % len(edges)], fault.amount)

    def _lost_beats(self, fault: InjectedFault) -> None:
        self._forget(self.world.scene.parts.topics.progress(fault.who), fault.amount)

    def _lost_plans(self, fault: InjectedFault) -> None:
        topology = self.world.scene.parts.topics.topology
        records = self.world.broker.logs[topology].records
        self._forget(topology, max(0, min(fault.amount, len(records) - 1 - self._kept_to())))

    def _kept_to(self) -> int:
        """Return the offset up to which plans are never lost.

        The first plans are kept, because without any plan the mesh waits for all nodes. A plan by which a
        wrong clock skips rounds is kept too: if it were lost, its members would wait for their round, and
        delay all others until the time of that round.
        """
        stored = self.world.broker.logs[self.world.scene.parts.topics.topology].records
        offset: int | None = None
        for record in stored:
            readable, skips = self.world.watch.oracle.skips_to(record.value, record.appended)
            if readable and (offset is None or skips):
                offset = record.offset
        return offset or 0

    def _forget(self, topic: str, count: int) -> None:
        forgotten = self.world.broker.forget(topic, count)
        retained_records = [
            (record.value, record.appended) for record in self.world.broker.logs[topic].records
        ]
        self.world.watch.oracle.forgotten(topic, forgotten, retained_records)
        self.world.history.note("broker", "forgets", f"{forgotten} records of {topic.split('.', 2)[-1]}")

    # ------------------------------------------------------------------------- owners, and mesh files

    def _leaves(self, fault: InjectedFault) -> None:
        """Let an owner ask to leave some rounds from now.

        A third of the owners withdraw the wish later. A third come back after they have left.
        """
        world, name = self.world, fault.who
        leave_from = world.watch.oracle.stepped.get(name, 0) + 1 + fault.amount
        self._ask(name, leave_from)

        def stay() -> None:
            if not any(node.halted for node in self._processes(name)):
                self._ask(name, None)

        def come_back() -> None:
            processes = self._processes(name)
            if self.calmed or name in self.broken:
                return
            if not all(node.halted or node.role is None for node in processes):
                self._after(fault.seconds, come_back)
                return
            self._ask(name, None)
            for node in processes:
                node.process.end("its owner lets it come back", RUNS)

        if fault.amount % 3 < 2:
            self._after(fault.seconds, come_back if fault.amount % 3 else stay)

    def _ask(self, name: str, leave_from: int | None) -> None:
        self.world.watch.oracle.asked(name, leave_from)
        for node in self._processes(name):
            node.leave(leave_from)
            if (leave_from or 0) % 2:
                node.tell()

    def _new_file(self, fault: InjectedFault) -> None:
        """Introduce a newer mesh file.

        A scheduler uses it at once, then one node after another, but not all.
        """
        world = self.world
        _, parts = world.scene.files[max(world.scene.files)]
        before = list(world.processes)
        added = world.take_newer_file()
        world.add_scheduler().start()
        for name in added:
            world.nodes[name].process.start()
        for place, node in enumerate(before):
            if fault.amount >> place & 1:
                self._after(fault.seconds * place, partial(self._restart, node, parts))

    def _old_file(self, fault: InjectedFault) -> None:
        """Start a node, or for `amount` 0 a further scheduler, with the older mesh file when a newer one is
        in use.
        """
        world, node = self.world, self.world.nodes[fault.who]
        oldest, newest = min(world.scene.files), max(world.scene.files)
        _, parts = world.scene.files[oldest]
        if world.generation == oldest or (fault.amount and fault.who not in parts.nodes):
            return
        if not fault.amount:
            self._schedulers.passing(world.add_scheduler(oldest), fault.seconds)
            return
        node.process.end("gets the older mesh file", RUNS)
        node.use_file(parts.context(node.name), oldest)
        self._after(fault.seconds, partial(self._restart, node, world.scene.files[newest][1]))

    def _restart(self, node: SimulatedNode, parts: MeshParts) -> None:
        node.process.end("gets a newer mesh file", RUNS)
        node.use_file(parts.context(node.name), max(self.world.scene.files))

    # ---------------------------------------------------------------------------------------------------

    def _break(self, name: str) -> None:
        self.broken.add(name)
        self.world.excuses.broken.add(name)

    def _processes(self, name: str) -> list[SimulatedNode]:
        return [node for node in self.world.processes if node.name == name]

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self.world.broker.after(seconds, action)
