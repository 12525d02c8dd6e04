"""A stranger on the broker of a signed mesh: writes on any topic, in anybody's name.

It has a key of its own, and that of a member.
"""

from contextlib import suppress
from dataclasses import replace

from nodes.values import Release
from streams.codec import Refused, decode_plans, encode_heartbeat, encode_plans, encode_release
from streams.codec.envelope import SignedEnvelope
from streams.simulation.faults import InjectedFault
from streams.simulation.signing import PLANNER, key_of
from streams.simulation.world import World
from topology.keyed import generator
from topology.planning import end_plan
from topology.plans import Heartbeat, Plan


class Stranger:
    """Forges the messages of one world; nobody may take any."""

    def __init__(self, world: World) -> None:
        self._world = world

    def forge(self, fault: InjectedFault) -> None:
        """Write as the fault says: a release, a hello, a wish to leave, or the end of the run.

        From 4 on it signs a release, or the end, as another node, with that one's key.
        """
        parts, victim = self._world.scene.parts, fault.who
        signer = next(name for name in parts.nodes if name != victim)  # whose key the stranger has
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
        """Write what a member has signed once more: on its own topic, or on any other of the mesh."""
        world, random = self._world, generator("replay", fault.at, fault.amount)
        # What a stranger put on a topic is no member's there: sent back home it would pass, and rightly.
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
        """Return the kind of messages that belong on a topic, and whose they are."""
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
        """Write the message as signed by `name`, whose key the stranger lacks, or by another node."""
        planner = self._world.scene.parts.planner
        if isinstance(planner, SignedEnvelope):
            key = key_of("stranger" if other is None else f"node {other}")
            value = planner.signing(other or name, key.sign).sealed(message)
            self._world.excuses.forged.add((topic, value))
            self._world.broker.write(topic, value)
