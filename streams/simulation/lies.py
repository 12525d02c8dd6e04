"""A member that lies. It writes what it likes on the topics that its broker's users allow it: its own.

In a signed mesh it signs these messages with its own key.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from nodes.values import Release
from streams.codec import Refused, decode_plans, encode_heartbeat, encode_plans, encode_release
from streams.codec.envelope import PLAIN, SignedEnvelope
from streams.simulation.faults import FaultKind, InjectedFault
from streams.simulation.stage import PLANNER, key_of
from streams.simulation.world import World
from topology.keyed import generator
from topology.planning import end_plan
from topology.plans import MOST_TOLD, Heartbeat, Plan
from topology.scheduler import heartbeat_period

AGAIN = 0.05
"""Seconds from one lie about progress to the next."""
HUGE = 1 << 21
"""The size in bytes of a record that every topic should refuse."""


class Liar:
    """Writes the false messages of one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def lie(self, fault: InjectedFault) -> None:
        """Write the records of this fault."""
        self._world.excuses.liars.add(fault.who)
        match fault.kind:
            case FaultKind.SECOND_VALUE:
                self._second_value(fault)
            case FaultKind.MALFORMED:
                self._malformed(fault)
            case FaultKind.FORGED_BOOT:
                self._forged_boot(fault)
            case FaultKind.FALSE_PROGRESS:
                self._false_progress(fault)
            case FaultKind.FALSE_ACCUSATION:
                self._false_accusation(fault)
            case FaultKind.FALSE_WISH:
                self._false_wish(fault)

    def _second_value(self, fault: InjectedFault) -> None:
        """Publish a second value for a round: an earlier one, the current one, or the next."""
        world, parts = self._world, self._world.scene.parts
        journal = world.nodes[fault.who].journal
        records = journal.records()
        if not records:
            return
        round = max(1, records[-1].round + fault.amount - 1)
        value = Release(0.5 * records[-1].release + 0.01)
        message = records[-1].message(parts.topics.run, fault.who, journal.instance, simulated=True)
        forged = encode_release(message._replace(round=round, release=value, exact=False), parts.digest)
        for topic in self._edges(fault.who):
            world.broker.write(topic, self._sealed(fault.who, forged))

    def _malformed(self, fault: InjectedFault) -> None:
        """Write a broken record on an edge or the node's progress: cut off, with a flipped bit, huge, empty
        or foreign.
        """
        world = self._world
        random = generator("malformed", fault.at, fault.amount)
        topics = [*self._edges(fault.who), world.scene.parts.topics.progress(fault.who)]
        topic = topics[fault.amount % len(topics)]
        stored = world.broker.logs[topic].records
        like = bytearray((stored[-1].value if stored else b"") or b"\x01")
        match fault.amount % 7:
            case 0:
                value = bytes(like[: int(random.integers(len(like)))])
            case 1:
                value = bytes(HUGE)
            case 2:
                value = random.bytes(64)
            case 3:
                value = b""
            case 4:
                value = bytes(like[:-8]) + np.array([np.nan]).tobytes()
            case _:
                like[int(random.integers(len(like)))] ^= 1 << int(random.integers(8))
                value = bytes(like)
        world.broker.write(topic, value)

    def _forged_boot(self, fault: InjectedFault) -> None:
        """Send a hello of a process, or of a life, that does not exist."""
        world, parts = self._world, self._world.scene.parts
        instance = world.new_id() if fault.amount else world.nodes[fault.who].journal.instance
        self._say(Heartbeat(parts.topics.run, fault.who, instance, world.new_id(), 0, hello=True))

    def _false_progress(self, fault: InjectedFault) -> None:
        """For some time send heartbeats, as the node's own process, with up to 2^62 rounds too many."""
        beat = self._heartbeat(fault.who)
        if beat is not None:
            self._say(replace(beat, stepped=beat.stepped + 2**fault.amount))
        if fault.seconds > 0:
            self._world.broker.after(
                AGAIN, partial(self._false_progress, fault._replace(seconds=fault.seconds - AGAIN))
            )

    def _false_accusation(self, fault: InjectedFault) -> None:
        """Send a heartbeat that accuses every other node of two values."""
        beat = self._heartbeat(fault.who)
        if beat is not None:
            instances = {node.journal.instance for node in self._world.processes if node.name != fault.who}
            self._say(replace(beat, accused=tuple(sorted(instances))[:MOST_TOLD]))

    def _false_wish(self, fault: InjectedFault) -> None:
        """Send a wish to leave, or to join, from a round that has passed, is near, or never comes."""
        beat = self._heartbeat(fault.who)
        if beat is not None:
            round = (1, beat.stepped + fault.amount, 2**62)[fault.amount % 3]
            leaves = fault.amount % 2
            self._say(replace(beat, leave_from=round) if leaves else replace(beat, join_after=round))

    def beat_for_ever(self, beat: Heartbeat) -> None:
        """Repeat the node's last heartbeat for ever, as if its process were alive."""
        self._say(beat)
        period = heartbeat_period(self._world.scene.parts.scheduler.silence)
        self._world.broker.after(period, partial(self.beat_for_ever, beat))

    def _heartbeat(self, name: str) -> Heartbeat | None:
        role = self._world.nodes[name].role
        return None if role is None else role.machine.heartbeat

    def _say(self, beat: Heartbeat) -> None:
        parts = self._world.scene.parts
        signed = self._sealed(beat.node, encode_heartbeat(beat, parts.digest))
        self._world.broker.write(parts.topics.progress(beat.node), signed)

    def _sealed(self, name: str, message: bytes) -> bytes:
        return self._world.scene.parts.envelopes.get(name, PLAIN).sealed(message)

    def _edges(self, name: str) -> list[str]:
        return [topic for topic, (source, _) in self._world.edges.items() if source == name]


# A stranger on the broker of a signed mesh, who writes on any topic, in any node's name.
#
# The stranger has a key of its own, and the key of one member.


class Stranger:
    """Forges messages in one world. Readers must refuse all of them."""

    def __init__(self, world: World) -> None:
        self._world = world

    def forge(self, fault: InjectedFault) -> None:
        """Write a forged message: a release, a hello, a wish to leave, or the end of the run.

        For amounts from 4 on another node, whose key the stranger has, signs the release or the end.
        """
        parts, victim = self._world.scene.parts, fault.who
        signer = next(name for name in parts.nodes if name != victim)  # the stranger has this node's key
        topics, journal = parts.topics, self._world.nodes[victim].journal
        records = journal.records()
        hello = Heartbeat(topics.run, victim, journal.instance, self._world.new_id(), 0, hello=True)
        match fault.amount:
            case 0 | 4 if records:
                value = Release(0.5 * records[-1].release + 0.01)
                message = records[-1].message(topics.run, victim, journal.instance, simulated=True)
                forged = encode_release(message._replace(release=value, exact=False), parts.digest)
                for topic, (source, _) in self._world.edges.items():
                    if source == victim:
                        self._write(topic, victim, forged, *([signer] if fault.amount else []))
            case 3 | 5 if (last := self._last_plan()) is not None:
                ending = end_plan(topics.run, last.round + 1, last, last.generation)
                forged = next(encode_plans(last, (ending,), parts.digest))
                self._write(topics.topology, PLANNER, forged, *([signer] if fault.amount > 3 else []))
            case amount:
                beat = hello if amount % 2 else replace(hello, hello=False, leave_from=1)
                self._write(topics.progress(victim), victim, encode_heartbeat(beat, parts.digest))

    def replay(self, fault: InjectedFault) -> None:
        """Write a member's signed message again, on its own topic or on any other topic of the mesh."""
        world, random = self._world, generator("replay", fault.at, fault.amount)
        # The stranger's own records are left out: one that came from a member's topic would be valid again
        # there.
        forged = world.excuses.forged
        signed = {
            topic: [record.value for record in log.records if (topic, record.value) not in forged]
            for topic, log in sorted(world.broker.logs.items())
        }
        topics = [topic for topic, values in signed.items() if values]
        source = topics[int(random.integers(len(topics)))]
        value = signed[source][int(random.integers(len(signed[source])))]
        target = source if fault.amount % 2 else topics[int(random.integers(len(topics)))]
        world.history.note("stranger", "replays", f"{source} on {target}")
        if self._home(source) != self._home(target):
            world.excuses.forged.add((target, value))
        world.broker.write(target, value)

    def _home(self, topic: str) -> tuple[str, str]:
        """Return the kind of messages that belong on a topic, and the node that writes them."""
        source, _ = self._world.edges.get(topic, (None, ()))
        return (topic, "") if source is None else ("releases", source)

    def _last_plan(self) -> Plan | None:
        """Return the last valid plan, which anybody may read."""
        parts, last = self._world.scene.parts, self._world.watch.oracle.last_plan
        for stored in self._world.broker.logs[parts.topics.topology].records if last else ():
            with suppress(Refused):
                record = decode_plans(
                    parts.planner.of_scheduler(stored.value), parts.topics.run, parts.digest
                )
                for plan in record.plans:
                    if last is not None and plan.mark == last.mark:
                        return plan
        return None

    def _write(self, topic: str, name: str, message: bytes, other: str | None = None) -> None:
        """Write the message as if `name` had signed it, but with the stranger's key or with that of another
        node.
        """
        planner = self._world.scene.parts.planner
        if isinstance(planner, SignedEnvelope):
            key = key_of("stranger" if other is None else f"node {other}")
            value = planner.signing(other or name, key.sign).sealed(message)
            self._world.excuses.forged.add((topic, value))
            self._world.broker.write(topic, value)
