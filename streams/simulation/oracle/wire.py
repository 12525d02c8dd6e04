"""Reads a mesh's messages as docs/reference/wire.md defines them: plans, heartbeats, releases, signatures."""

import hashlib
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from streams.simulation.oracle.given import FloatArray, Setup

RELEASE, PLAN, HEARTBEAT, PLANS, SIGNED = 1, 2, 3, 6, 7
"""The kinds of messages, which are their second byte."""
DOMAIN = b"mirrormesh signature 1"
NOTHING = bytes(16)
"""The mark that a run's first record of plans continues."""
LAST = 2**63 - 1
LONGEST_RECORD = 2**18
LONGEST_PLAN = 2**24
TOLERANCE = 1e-9
_NAME = re.compile(rb"[a-z0-9-]+")
_SEEN = 4096
"""The number of messages that are remembered. A release is on several edges, and heartbeats are repeated."""


class Unreadable(Exception):
    """A record that every reader must refuse. The text gives the reason."""


class ReadMember(NamedTuple):
    """A node in a plan: its name, its life, and whether it is a full member."""

    name: str
    instance: str
    full: bool


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlan:
    """A plan as it is in a message.

    `edges`: (source, target, weight), where source and target are indices into `members`. `named`: the number
    of earlier plans that name each node. `closing`: the closing rounds left, with this one.
    """

    round: int
    follows: int
    members: tuple[ReadMember, ...]
    edges: tuple[tuple[int, int, float], ...]
    named: dict[str, int]
    generation: int
    closing: int
    mark: bytes

    @property
    def ended(self) -> bool:
        """Whether the plan ends the run."""
        return not self.members

    def member(self, name: str) -> ReadMember | None:
        """Return the member with this name; None if there is none."""
        return next((member for member in self.members if member.name == name), None)

    def row(self, name: str) -> list[tuple[ReadMember, float]]:
        """Return the edges into a node in the plan's order, which is that of the sources' names."""
        return [
            (self.members[source], weight)
            for source, target, weight in self.edges
            if self.members[target].name == name
        ]

    def targets(self, name: str) -> list[str]:
        """Return the nodes that read a node's releases."""
        return [
            self.members[target].name for source, target, _ in self.edges if self.members[source].name == name
        ]


class ReadPlans(NamedTuple):
    """Consecutive plans, and the mark of the plan that they continue."""

    continues: bytes
    plans: tuple[ReadPlan, ...]


class ReadBeat(NamedTuple):
    """A heartbeat: what a node reports about itself."""

    node: str
    instance: str
    boot: str
    stepped: int
    leave_from: int | None
    hello: bool
    accused: tuple[str, ...]
    finished: bool


class ReadRelease(NamedTuple):
    """A node's release for a round. `bits` are the bytes of its value."""

    source: str
    instance: str
    round: int
    exact: bool
    simulated: bool
    value: FloatArray
    bits: bytes


@dataclass(slots=True)
class WireReader:
    """Reads the records of one run. All methods raise Unreadable for records that readers must refuse."""

    setup: Setup
    _run: bytes = field(init=False)
    _seen: dict[tuple[str, bytes], ReadRelease] = field(default_factory=dict, init=False)
    _beats: dict[tuple[str, bytes], ReadBeat] = field(default_factory=dict, init=False)
    _right: set[tuple[bytes, bytes]] = field(default_factory=set, init=False)
    _keys: dict[bytes, Ed25519PublicKey] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._run = _text(self.setup.run)

    def plans(self, value: bytes, appended: float) -> ReadPlans:
        """Return the plans of a record of the topology that was appended at this time."""
        setup = self.setup
        data = self._opened(value, setup.scheduler_keys)
        digest, continues, count = _header("<BB16s16sI", data, PLANS)
        if digest != setup.digest:
            raise Unreadable("digest")
        if len(data) > (LONGEST_RECORD if count != 1 else LONGEST_PLAN + 42):
            raise Unreadable("too long")
        at, plans = 38, list[ReadPlan]()
        for _ in range(count):
            (size,) = _numbers("<I", data, at)
            plans.append(self._plan(_cut(data, at + 4, size)))
            at += 4 + size
        if at != len(data) or not plans:
            raise Unreadable("length")
        if (continues == NOTHING) != (plans[0].follows == 0):
            raise Unreadable("the first plan continues nothing")
        for before, plan in pairwise(plans):
            if plan.follows != before.round or before.ended:
                raise Unreadable(f"plan {plan.round} does not follow plan {before.round}")
        if any(self._is_ahead(plan, appended) for plan in plans):
            raise Unreadable("ahead")
        return ReadPlans(continues, tuple(plans))

    def heartbeat(self, value: bytes, node: str) -> ReadBeat:
        """Return a node's heartbeat."""
        remembered = self._beats.get((node, value))
        if remembered is not None:
            return remembered
        data = self._opened(value, self.setup.node_keys, node)
        flags, digest, instance, boot, stepped, join, leave = _header("<BBB16s16s16sQQQ", data, HEARTBEAT)
        ids = self._run + _text(node)
        if _cut(data, 75, len(ids)) != ids or digest != self.setup.digest or flags > 31:
            raise Unreadable("run, source, digest or flags")
        rest = data[75 + len(ids) :]
        accused = tuple(rest[at : at + 16].hex() for at in range(0, len(rest), 16))
        if len(rest) % 16 or (not 1 <= len(accused) <= 8 if flags & 8 else accused):
            raise Unreadable("length")
        if max(stepped, join, leave) > LAST or (join and not flags & 1) or (leave and not flags & 2):
            raise Unreadable("rounds")
        wish = leave if flags & 2 else None
        life = instance.hex(), boot.hex()
        beat = ReadBeat(node, *life, stepped, wish, bool(flags & 4), accused, bool(flags & 16))
        if len(self._beats) > _SEEN:
            self._beats.clear()
        self._beats[node, value] = beat
        return beat

    def release(self, value: bytes, source: str) -> ReadRelease:
        """Return the release in a record of an edge from this node."""
        remembered = self._seen.get((source, value))
        if remembered is not None:
            return remembered
        data = self._opened(value, self.setup.node_keys, source)
        flags, digest, instance, round = _header("<BBB16s16sQ", data, RELEASE)
        ids = self._run + _text(source)
        bits = data[43 + len(ids) :]
        if not data.startswith(ids, 43) or digest != self.setup.digest or flags > 3:
            raise Unreadable("run, source, digest or flags")
        if len(bits) != 8 * self.setup.dimension or not 1 <= round <= LAST:
            raise Unreadable("length or round")
        vector = np.frombuffer(bits, "<f8").astype(np.float64)
        if not math.hypot(*vector.tolist()) <= self.setup.bounds[source]:
            raise Unreadable("not finite, or beyond its bound")
        release = ReadRelease(source, instance.hex(), round, bool(flags & 1), bool(flags & 2), vector, bits)
        if len(self._seen) > _SEEN:
            self._seen.clear()
        self._seen[source, value] = release
        return release

    def _opened(self, value: bytes, keys: Mapping[str, bytes] | None, signer: str | None = None) -> bytes:
        """Return the message in a record. One of `keys`, or the key of `signer`, must have signed it."""
        if keys is None:
            return value
        if len(value) < 3 or value[0] != 1 or value[1] != SIGNED:
            raise Unreadable("not signed")
        name, rest = _cut(value, 3, value[2]), value[3 + value[2] :]
        signature, message = rest[:64], rest[64:]
        key = keys.get(name.decode("latin-1"))
        if len(message) < 2 or key is None or (signer is not None and name != signer.encode()):
            raise Unreadable("not signed by who must")
        setup = self.setup
        words = _text(setup.mesh) + self._run + bytes([len(name)]) + name
        signed = DOMAIN + message[1:2] + words + setup.digest + message
        if (signature, signed) not in self._right:
            try:
                self._key(key).verify(signature, signed)
            except InvalidSignature:
                raise Unreadable("wrongly signed") from None
            if len(self._right) > _SEEN:
                self._right.clear()
            self._right.add((signature, signed))
        return message

    def _key(self, key: bytes) -> Ed25519PublicKey:
        if key not in self._keys:
            self._keys[key] = Ed25519PublicKey.from_public_bytes(key)
        return self._keys[key]

    def _plan(self, data: bytes) -> ReadPlan:
        header = _header("<BB16sQQIIIIII", data, PLAN)
        digest, round, follows, table, size, edges, earlier_count, generation, closing = header
        at = 58 + len(self._run)
        if digest != self.setup.digest or _cut(data, 58, len(self._run)) != self._run:
            raise Unreadable("run or digest")
        if len(data) != at + table + 21 * size + 16 * edges + 12 * earlier_count:
            raise Unreadable("length")
        if not 0 <= follows < round <= LAST or closing > (65 if size else 0):
            raise Unreadable("round")
        names = data[at : at + table].split(b",") if table else []
        if not all(map(_NAME.fullmatch, names)):
            raise Unreadable("a name")
        at += table
        places = _numbers(f"<{size}I", data, at)
        lives = [data[at + 4 * size + 16 * k :][:16].hex() for k in range(size)]
        full = data[at + 20 * size : at + 21 * size]
        at += 21 * size
        sources, targets = _numbers(f"<{edges}I", data, at), _numbers(f"<{edges}I", data, at + 4 * edges)
        weights = _numbers(f"<{edges}d", data, at + 8 * edges)
        at += 16 * edges
        earlier = _numbers(f"<{earlier_count}I", data, at)
        counts = _numbers(f"<{earlier_count}Q", data, at + 4 * earlier_count)
        if max((*places, *earlier), default=-1) >= len(names) or max(full, default=0) > 1:
            raise Unreadable("a place or a flag")
        texts = [name.decode() for name in names]
        members = tuple(
            ReadMember(texts[place], life, bool(flag))
            for place, life, flag in zip(places, lives, full, strict=True)
        )
        named_names = [texts[place] for place in earlier]
        sizes = struct.pack("<QQIIIII", round, follows, size, edges, earlier_count, generation, closing)
        words = [self.setup.run, *[member.name for member in members], *lives, *named_names]
        arrays = full + data[at - 16 * edges : at] + data[at + 4 * earlier_count :]
        mark = hashlib.sha256(sizes + ",".join(words).encode() + arrays).digest()[:16]
        entries = tuple(zip(sources, targets, weights, strict=True))
        plan_counts = dict(zip(named_names, counts, strict=True))
        plan = ReadPlan(round, follows, members, entries, plan_counts, generation, closing, mark)
        _check(plan, len(named_names))
        return plan

    def _is_ahead(self, plan: ReadPlan, appended: float) -> bool:
        """Return whether a plan is void because it is more than 2H + 1 rounds ahead of the slots' clock."""
        clock = self.setup.clock
        begins_again = bool(plan.members) and not any(member.full for member in plan.members)
        if clock is None or begins_again:
            return False
        return plan.round > max(plan.follows, clock.round_at(appended)) + 2 * self.setup.horizon + 1


def _check(plan: ReadPlan, named: int) -> None:
    """Raise Unreadable for a plan that no mesh could follow."""
    names = [member.name for member in plan.members]
    if sorted(set(names)) != names or len(plan.named) != named:
        raise Unreadable("names that are not distinct, or not in order")
    if any(count > plan.follows for count in plan.named.values()):
        raise Unreadable("a node was named more often than there were plans")
    ends = [(target, source) for source, target, _ in plan.edges]
    if sorted(set(ends)) != ends or any(source == target for source, target in ends):
        raise Unreadable("edges that are not distinct, or not in order")
    size = len(names)
    if any(max(pair) >= size for pair in ends) or not all(0 < w <= 1 + TOLERANCE for _, _, w in plan.edges):
        raise Unreadable("an edge or a weight out of range")
    rows, columns = [0.0] * size, [0.0] * size
    for source, target, weight in plan.edges:
        rows[target] += weight
        columns[source] += weight if plan.members[target].full else 0.0
        if not plan.members[source].full:
            raise Unreadable("a listener is heard")
    for member, row, column in zip(plan.members, rows, columns, strict=True):
        if row > 1 + TOLERANCE or (member.full and abs(row - column) > TOLERANCE):
            raise Unreadable("the weights are not doubly stochastic")


def _text(name: str) -> bytes:
    return bytes([len(name)]) + name.encode("ascii")


def _header(layout: str, data: bytes, kind: int) -> tuple[Any, ...]:
    fields = _numbers(layout, data, 0)
    if fields[0] != 1 or fields[1] != kind:
        raise Unreadable("version or kind")
    return fields[2:]


def _numbers(layout: str, data: bytes, at: int) -> tuple[Any, ...]:
    try:
        return struct.unpack_from(layout, data, at)
    except struct.error:
        raise Unreadable("cut off") from None


def _cut(data: bytes, start: int, size: int) -> bytes:
    part = data[start : start + size]
    if len(part) < size:
        raise Unreadable("cut off")
    return part
