"""A stranger on the broker of a signed mesh: writes on any topic, in anybody's name, with its own key."""

from dataclasses import replace

from nodes.values import Release
from streams.codec import encode_heartbeat, encode_plans, encode_release
from streams.codec.signatures import SignedEnvelope
from streams.simulation.faults import Fault
from streams.simulation.signing import PLANNER, key_of
from streams.simulation.world import World
from topology.planning import end_plan
from topology.plans import Heartbeat


class Stranger:
    """Forges the messages of one world; nobody may take any."""

    def __init__(self, world: World) -> None:
        self._world = world

    def forge(self, fault: Fault) -> None:
        """Write as the fault says: a release, a hello, a wish to leave, or the end of the run."""
        parts, who = self._world.scene.parts, fault.who
        topics, journal = parts.topics, self._world.nodes[who].journal
        records = journal.records()
        hello = Heartbeat(topics.run, who, journal.instance, self._world.new_id(), 0, hello=True)
        match fault.amount:
            case 0 if records:
                value = Release(0.5 * records[-1].release + 0.01)
                told = records[-1].message(topics.run, who, journal.instance, simulated=True)
                forged = encode_release(told._replace(release=value, exact=False), parts.digest)
                for topic, (source, _) in self._world.facts.edges.items():
                    if source == who:
                        self._write(topic, who, forged)
            case 3 if plans := self._world.facts.plans:
                last = plans[max(plans)][-1]
                ending = end_plan(topics.run, last.round + 1, last, 0)
                self._write(topics.topology, PLANNER, next(encode_plans(last, (ending,), parts.digest)))
            case amount:
                beat = hello if amount % 2 else replace(hello, hello=False, leave_from=1)
                self._write(topics.progress(who), who, encode_heartbeat(beat, parts.digest))

    def _write(self, topic: str, name: str, message: bytes) -> None:
        """Write the message as signed by `name`, whose key the stranger lacks."""
        known = self._world.scene.parts.planner
        if isinstance(known, SignedEnvelope):
            value = known.signing(name, key_of("stranger").sign).sealed(message)
            self._world.facts.forged.add(value)
            self._world.broker.write(topic, value)
