"""The oracle's reading of the wire beside the codec's: two programs by one description, on the same bytes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.codec import Refused, decode_heartbeat, decode_plans, decode_release
from streams.mesh.file import load
from streams.simulation.adversary import Adversary
from streams.simulation.oracle.wire import Unreadable, WireReader
from streams.simulation.stage import Stage
from streams.simulation.world import setup_of

MESH = Path(__file__).parent / "mesh.yaml"
ROUNDS = 12


class Logs:
    """What a run of a mesh has written, plain or signed, and both readers of it."""

    def __init__(self, *, signed):
        stage = Stage(load(MESH))
        seed = next(seed for seed in range(99) if stage.scene(seed).setting.signed is signed)
        scene = stage.scene(seed, ())
        world = Adversary(scene).world
        world.begin()
        while not world.nodes["a"].halted:
            world.advance()
        self.parts, self.setup = scene.parts, setup_of(scene)
        self.wire = WireReader(self.setup)
        topics, logs = self.parts.topics, world.broker.logs
        self.values = {
            "plans": [stored.value for stored in logs[topics.topology].records],
            "heartbeat": [stored.value for stored in logs[topics.progress("a")].records],
            "release": [stored.value for stored in logs[topics.edge("a", "b")].records],
        }

    def by_codec(self, kind, value):
        """What the codec reads, as the oracle has it; None: it refuses."""
        topics, digest, envelope = self.parts.topics, self.parts.digest, self.parts.planner
        try:
            if kind == "plans":
                record = decode_plans(envelope.of_scheduler(value), topics.run, digest)
                return record.continues, [
                    (plan.round, plan.members, dict(plan.named), plan.weights.tolist(), plan.mark)
                    for plan in record.plans
                ]
            if kind == "heartbeat":
                beat = decode_heartbeat(envelope.of_node(value, "a"), topics.run, "a", digest)
                return beat.instance, beat.boot, beat.stepped, beat.leave_from, beat.hello, beat.accused
            release = decode_release(envelope.of_node(value, "a"), self.parts.expected("a"))
            return release.instance, release.round, release.exact, release.simulated, release.release.tolist()
        except Refused:
            return None

    def by_oracle(self, kind, value):
        """The same, read by the oracle."""
        try:
            if kind == "plans":
                record = self.wire.plans(value, 0.0)
                return record.continues, [
                    (plan.round, plan.members, plan.named, [edge[2] for edge in plan.edges], plan.mark)
                    for plan in record.plans
                ]
            if kind == "heartbeat":
                beat = self.wire.heartbeat(value, "a")
                return beat.instance, beat.boot, beat.stepped, beat.leave_from, beat.hello, beat.accused
            release = self.wire.release(value, "a")
            return release.instance, release.round, release.exact, release.simulated, release.value.tolist()
        except Unreadable:
            return None


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "signed"])
def logs(request):
    return Logs(signed=request.param)


@pytest.mark.parametrize("kind", ["plans", "heartbeat", "release"])
def test_both_read_the_same_of_what_a_run_has_written(logs, kind):
    assert logs.values[kind]
    for value in logs.values[kind]:
        assert logs.by_oracle(kind, value) == logs.by_codec(kind, value) is not None


@pytest.mark.parametrize("kind", ["plans", "heartbeat", "release"])
def test_both_refuse_the_same_of_what_is_broken_anywhere(logs, kind):
    """Each byte is another, or is left out, or all after it is, or comes twice."""
    for value in (logs.values[kind][0], logs.values[kind][-1]):
        for at in range(len(value)):
            others = [value[:at] + bytes([byte]) + value[at + 1 :] for byte in (value[at] ^ 1, 4, 0x7F, 255)]
            for broken in (*others, value[:at] + value[at + 1 :], value[:at], value[:at] + value[at:] * 2):
                assert logs.by_oracle(kind, broken) == logs.by_codec(kind, broken), (at, broken)


@pytest.mark.parametrize("kind", ["plans", "heartbeat", "release"])
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_both_refuse_the_same_of_what_is_broken(logs, kind, data):
    """Some bytes are others, fewer or more, or come twice."""
    value = data.draw(st.sampled_from(logs.values[kind]))
    at = data.draw(st.integers(0, len(value) - 1))
    size = data.draw(st.integers(0, 3))
    middle = data.draw(
        st.sampled_from([b"", value[at : at + size] * 2, bytes([data.draw(st.integers(0, 255))])])
    )
    broken = value[:at] + middle + value[at + size :]
    assert logs.by_oracle(kind, broken) == logs.by_codec(kind, broken)
