"""A member that lies: on its own topics, which a broker's users leave it, it writes what it likes.

In a signed mesh it signs that with its own key.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from nodes.values import Release
from streams.codec import encode_heartbeat, encode_release
from streams.codec.envelope import PLAIN
from streams.simulation.faults import FaultKind, InjectedFault
from streams.simulation.world import World
from topology.keyed import generator
from topology.plans import MOST_TOLD, Heartbeat
from topology.scheduler import heartbeat_period

AGAIN = 0.05
"""Seconds between two lies about progress."""
HUGE = 1 << 21
"""Bytes of a record that no topic should take."""


class Liar:
    """Writes the lies of one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def lie(self, fault: InjectedFault) -> None:
        """Write what the fault says."""
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
        """Publish another value for a round: one that has passed, the current one, or the next."""
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
        """Write a broken record on an edge or on the own progress: cut, turned, huge, empty, foreign."""
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
        """Say hello as a process, or a life, that does not exist."""
        world, parts = self._world, self._world.scene.parts
        instance = world.new_id() if fault.amount else world.nodes[fault.who].journal.instance
        self._say(Heartbeat(parts.topics.run, fault.who, instance, world.new_id(), 0, hello=True))

    def _false_progress(self, fault: InjectedFault) -> None:
        """Say, for a while, as the own process, that it has stepped up to 2^62 rounds more than it has."""
        beat = self._heartbeat(fault.who)
        if beat is not None:
            self._say(replace(beat, stepped=beat.stepped + 2**fault.amount))
        if fault.seconds > 0:
            self._world.broker.after(
                AGAIN, partial(self._false_progress, fault._replace(seconds=fault.seconds - AGAIN))
            )

    def _false_accusation(self, fault: InjectedFault) -> None:
        """Say that every other node has sent two values."""
        beat = self._heartbeat(fault.who)
        if beat is not None:
            instances = {node.journal.instance for node in self._world.processes if node.name != fault.who}
            self._say(replace(beat, accused=tuple(sorted(instances))[:MOST_TOLD]))

    def _false_wish(self, fault: InjectedFault) -> None:
        """Ask to leave, or to join, from a round that has passed, is near, or never comes."""
        beat = self._heartbeat(fault.who)
        if beat is not None:
            round = (1, beat.stepped + fault.amount, 2**62)[fault.amount % 3]
            leaves = fault.amount % 2
            self._say(replace(beat, leave_from=round) if leaves else replace(beat, join_after=round))

    def beat_for_ever(self, beat: Heartbeat) -> None:
        """Say again and again, as a process that is there, what its node said last."""
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
