"""Malformed variants of each message: cut, flipped, of another run, sender, dimension, not finite, too long.

Bytes that a decoder takes are forged, not malformed, and are left out: no codec tells them from honest ones.
`misplaced` are some of these, which a machine has no use for.
"""

from collections import defaultdict
from dataclasses import replace
from random import Random

import numpy as np

from nodes.machine.journal import ReleaseMessage
from streams.codec import (
    Refused,
    decode_heartbeat,
    decode_plans,
    decode_release,
    encode_heartbeat,
    encode_plans,
    encode_release,
)
from streams.codec.envelope import LAST_ROUND, PLAIN
from streams.mesh.file import MeshFile
from topology.plans import PlanRecord

LONG = 2**20 - 2048
"""The bytes of the longest variants: what a topic without bounds takes."""


def decoders(file: MeshFile):
    """What each topic of the mesh holds, by its name: the function that decodes it, or raises Refused."""
    topics, digest, resolved = file.resolved.topics, file.digest(), file.resolved
    run, planned, sent = topics.run, resolved.envelope.of_scheduler, resolved.envelope.of_node
    found = {topics.topology: lambda value: decode_plans(planned(value), run, digest)}
    for name in resolved.graph.nodes:
        found[topics.progress(name)] = lambda value, name=name: decode_heartbeat(
            sent(value, name), run, name, digest
        )
        expected = resolved.node(name).expected
        for target in resolved.graph.neighbours(name)[1]:
            edge = topics.edge(name, target)
            found[edge] = lambda value, expected=expected: decode_release(
                sent(value, expected.source), expected
            )
    return found


def holds_releases(topic):
    """Whether a topic is an edge or an outbox."""
    return topic.split(".")[2] in {"edge", "outbox"}


def is_refused(decode, value):
    """Whether a decoder refuses the bytes."""
    try:
        decode(value)
    except Refused:
        return True
    return False


def well_formed(decode, read):
    """What the edges hold beside malformed records: {(source, round): values}. `read`: a topic's records."""
    found = defaultdict(set)
    for topic in decode:
        for value in read(topic) if holds_releases(topic) else ():
            if not is_refused(decode[topic], value):
                message = decode[topic](value)
                found[message.source, message.round].add(message.release.tobytes())
    return dict(found)


def variants(decode, good, digest, count, seed=0, envelope=PLAIN):
    """Yield `count` malformed variants of a message's bytes.

    `envelope`: that of who sends it. If it signs, every second variant is malformed and rightly signed.
    """
    chance, made = Random(seed), others(decode(good), digest)  # noqa: S311 # no secret is drawn
    kinds = (truncated, extended, flipped, garbage, lambda *_: chance.choice(made))
    inner = envelope.unverified(good)
    for number in range(count):
        base, sealed = (inner, envelope.sealed) if number % 2 else (good, bytes)
        value = sealed(bytes(LONG) if number % 250 == 249 else kinds[number % len(kinds)](base, chance))
        yield value if is_refused(decode, value) else truncated(good, chance)  # a flip may be no fault


def noise(good, count, seed=0):
    """Yield `count` variants of bytes that nobody decodes: a scheduler's own heartbeat, a dead letter."""
    chance = Random(seed)  # noqa: S311 # no secret is drawn
    kinds = (truncated, extended, flipped, garbage)
    for number in range(count):
        value = bytes(LONG) if number % 250 == 249 else kinds[number % len(kinds)](good, chance)
        yield value if value != good else b""


def misplaced(message, digest, count, seed=0):
    """Yield `count` well-formed messages of a wrong round or instance, unsigned."""
    chance = Random(seed)  # noqa: S311 # no secret is drawn
    for number in range(count):
        far, another = chance.randrange(10**6, LAST_ROUND // 2), f"{chance.getrandbits(128):032x}"
        if isinstance(message, ReleaseMessage):
            wrong = ({"round": far}, {"round": 1, "release": message.release + 1.0}, {"instance": another})
            yield encode_release(message._replace(**wrong[number % 3]), digest)
        elif isinstance(message, PlanRecord):
            yield from encode_plans(None, moved(message.plans, far if number % 2 else 0, another), digest)
        else:
            wrong = ({"stepped": far}, {"instance": another, "boot": another}, {"join_after": far})
            yield encode_heartbeat(replace(message, hello=False, **wrong[number % 3]), digest)


def moved(plans, rounds, instance):
    """The plans that many rounds later, or where they are, for another instance of every member."""
    if rounds:
        return tuple(replace(one, round=one.round + rounds, follows=one.follows + rounds) for one in plans)
    return tuple(
        replace(one, members=tuple(member._replace(instance=instance) for member in one.members))
        for one in plans
    )


def truncated(good, chance):
    """Cut somewhere."""
    return good[: chance.randrange(len(good))]


def extended(good, chance):
    """With more behind it."""
    return good + chance.randbytes(chance.randrange(1, 40))


def flipped(good, chance):
    """With some bits changed."""
    made = bytearray(good)
    for _ in range(chance.randrange(1, 9)):
        made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


def garbage(good, chance):
    """Random, after a header that is right."""
    return good[: chance.randrange(20)] + chance.randbytes(chance.randrange(300))


def others(message, digest):
    """Well-formed messages that nobody here expects."""
    wrong = bytes(16)
    if isinstance(message, ReleaseMessage):
        size = len(message.release)
        values = [np.zeros(size + 1), np.zeros(size - 1), np.full(size, np.nan), np.full(size, np.inf)]
        values.append(np.full(size, 1e300))
        made = [encode_release(message._replace(release=value), digest) for value in values]
        made += [
            encode_release(message._replace(**change), digest)
            for change in ({"run": "another"}, {"source": "nobody"})
        ]
        return [*made, encode_release(message, wrong)]
    if isinstance(message, PlanRecord):
        elsewhere = tuple(replace(plan, run="another") for plan in message.plans)
        return [*encode_plans(None, elsewhere, digest), *encode_plans(None, message.plans, wrong)]
    changes = ({"run": "another"}, {"node": "nobody"})
    made = [encode_heartbeat(replace(message, **change), digest) for change in changes]
    return [*made, encode_heartbeat(message, wrong)]
