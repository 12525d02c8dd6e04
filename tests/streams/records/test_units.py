"""Two streams that differ in one unit, under the same draws: which exact sums differ, and by how much.

The slots, the decoder, the learner and the clip are the product's own. The counts of rounds are made here.
"""

import json
import math
from collections import Counter, deque
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partialmethod
from itertools import pairwise

import numpy as np
import pytest

import nodes.machine.slots as by_time
import nodes.privacy.unit as units
import streams.records.observed as observing
from nodes.accounting.guarantee import Ledger
from nodes.algorithms import Constant, MirrorDescent
from nodes.geometry.constraints import L2Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Learner
from nodes.losses.losses import Logistic
from nodes.machine.partition_slots import PartitionSlots
from nodes.machine.slots import Arrival, CountSlots, TimeSlots
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.reveal import opened
from nodes.privacy.unit import counted, has_seat, unit_number
from nodes.values import Consensus, Decision, Observations
from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import CsvFields, SchemaDecoder, json_fields
from streams.records.observed import observed, seated, slot_closed

SCHEMA = SchemaSettings.model_validate({"features": {"x": "number", "y": "number"}, "label": {"column": "z"}})
POINT = np.array([0.3, -0.2])


@dataclass(frozen=True)
class Stream:
    """Records (partition, time, unit, content); `kind` says how they are cut into `rounds` slots.

    Without a content a record is not there, and its place is empty.
    """

    kind: str
    records: tuple[tuple[int, float, str | None, str | None], ...]
    rounds: int
    size: int
    apart: int

    @property
    def decoder(self):
        return SchemaDecoder(SCHEMA.with_units("unit", self.apart), json_fields)

    def slots(self):
        """Return the closed slots, and the machine's form of each."""
        decoder, offsets, arrivals = self.decoder, Counter(), []
        for partition, moment, unit, content in self.records:
            if content is None:
                offsets[partition] += 1
                continue
            value = b'{"unit": %s, %s' % (json.dumps(unit).encode(), content.encode())
            arrivals.append(Arrival(partition, offsets[partition], moment, value))
            offsets[partition] += 1
        if self.kind == "count":
            slots = CountSlots(self.size)
        elif self.kind == "partitions":
            slots = PartitionSlots(self.size, dict.fromkeys(offsets, 0))
            slots.look(offsets)
        else:
            slots = seated(lambda: TimeSlots(self.size, 0.0, 1.0, 0.0), decoder)()
        slots.open(1)
        for arrival in arrivals:
            slots.add(arrival)
        closed = []
        for round in range(1, self.rounds + 1):
            slots.open(round)
            slot = slots.take()
            closed.append((slot, slot_closed(slot, observed(slot.values, decoder), decoder)))
        return closed


MECHANISM = LaplaceGradient(1.0, Fraction(1), 64, 2, SimulatedSampler(0, "a"))
LEARNER = Learner(
    MirrorDescent(mirror_step(Euclidean(), L2Ball(2, 5.0)), Constant(1.0)),
    Logistic(),
    MECHANISM,
    Ledger(Fraction(1), 64),
    64,
)


def exact_sum(closed):
    """Return the integers that the noise is added to."""
    gradients, _ = LEARNER._of_the_slot(  # what goes to the mechanism
        Consensus(POINT), Decision(POINT), POINT, closed.observations, closed.counts
    )
    return MECHANISM.bounded_sum(opened(gradients))[0]


def content(random):
    if random.random() < 0.15:
        return '"x": "unreadable"}'
    x, y = random.normal(0, 3, 2)
    return f'"x": {x:.4f}, "y": {y:.4f}, "z": {random.choice([-1, 1])}}}'


def drawn(seed):
    """Return a stream, and its unit u."""
    random = np.random.default_rng(seed)
    kind = ("count", "partitions", "time")[seed % 3]
    rounds, size = int(random.integers(2, 13)), int(random.integers(1, 7))
    apart = int(random.integers(1, rounds + 1))
    names = [None, "", *(f"u{k}" for k in range(int(random.integers(1, 5))))]
    number = rounds * size if kind != "time" else int(random.integers(1, 3 * rounds * size))
    parts = 1 if kind == "count" else 3
    records = tuple(
        (
            int(random.integers(parts)),
            float(random.random() * rounds),
            names[random.integers(len(names))],
            content(random),
        )
        for _ in range(number)
    )
    return Stream(kind, records, rounds, size, apart)


def replaced(stream, seed):
    """Return the stream with other contents of u's records; their units, places and times stay."""
    random = np.random.default_rng([seed, 1])
    return replace(
        stream,
        records=tuple(
            (part, moment, unit, content(random) if unit == "u0" else old)
            for part, moment, unit, old in stream.records
        ),
    )


def without(stream):
    """Return the stream without u, for slots by time; the places of the others stay."""
    kept = tuple((*record[:3], None) if record[2] == "u0" else record for record in stream.records)
    return replace(stream, records=kept)


def check(seed):
    """Compare a stream with its neighbours; return the number of rounds that differed."""
    stream = drawn(seed)
    k = math.ceil(stream.rounds / stream.apart)
    neighbours = [replaced(stream, seed)] + [without(stream)] * (stream.kind == "time")
    differing = 0
    for number, neighbour in enumerate(neighbours):
        rounds = []
        for (slot, mine), (other_slot, other) in zip(stream.slots(), neighbour.slots(), strict=True):
            distance = int(np.abs(exact_sum(mine) - exact_sum(other)).sum())
            assert distance <= MECHANISM.distance
            places, other_places = set(slot.places), set(other_slot.places)
            moved = places ^ other_places
            assert len(moved) <= 2 * number  # of others at most one record enters or leaves
            if distance or moved:
                rounds.append(slot.round)
        assert len(rounds) <= k
        assert all(later - earlier >= stream.apart for earlier, later in pairwise(rounds))
        differing += len(rounds)
    return differing


def test_one_unit_moves_few_sums_far_apart_and_nobody_elses_place():
    differing = [check(seed) for seed in range(1000)]
    assert sum(map(bool, differing)) > 500  # the comparison sees a difference in most streams


def more_rounds(monkeypatch):
    """A unit has seats in one round more."""
    wrong = lambda number, round, apart: has_seat(number, round, apart) or has_seat(number, round + 1, apart)  # noqa: E731
    monkeypatch.setattr(units, "has_seat", wrong)
    monkeypatch.setattr(by_time, "has_seat", wrong)


def two_in_a_slot(monkeypatch):
    """Every record of a unit counts in its seat."""

    def every(round, apart, numbers, order):
        return np.array(
            [number is not None and has_seat(number, round, apart) for number in numbers], np.bool_
        )

    monkeypatch.setattr(observing, "counted", every)
    monkeypatch.setattr(TimeSlots, "_seat", partialmethod(taken, by_seat=True))


def taken(self, arrival, round, *, by_seat):
    """Take the record, whatever else of its unit is in the slot."""
    unit = self.unit_of(arrival.value)
    if by_seat and (unit is None or not has_seat(unit, round, self.apart)):
        return False
    self._seated.setdefault(round, {})[arrival.partition, arrival.offset] = arrival
    return True


def after_the_limit(monkeypatch):
    """With slots by time the bound comes behind the limit of a slot."""
    monkeypatch.setattr(TimeSlots, "_seat", partialmethod(taken, by_seat=False))


def by_the_content(monkeypatch):
    """A hash of the whole record gives the seat."""
    monkeypatch.setattr(SchemaDecoder, "units", lambda self, values: [unit_number(str(v)) for v in values])


def nothing_is_bounded(monkeypatch):
    """All records count."""
    monkeypatch.setattr(observing, "counted_records", lambda slot, decoder: None)


FAULTS = [more_rounds, two_in_a_slot, after_the_limit, by_the_content, nothing_is_bounded]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        deque(map(check, range(1000)), 0)


def test_a_record_without_a_unit_never_counts_and_units_are_compared_as_words():
    decoder = SchemaDecoder(SCHEMA.with_units("unit", 1), json_fields)
    names = ["7", '"7"', "7.0", '"7.0"', '""', '" "', "null", "[7]", '{"a": 7}', "NaN", '"b"']
    values = [b'{"unit": %s, "x": 1, "y": 1, "z": 1}' % name.encode() for name in names]
    values += [b'{"x": 1, "y": 1, "z": 1}', b"", b"{", b"x" * 100_000]
    numbers = decoder.units(values)
    assert numbers == [decoder.unit(value) for value in values]
    assert len(set(numbers[:4])) == 1
    assert numbers[4:10] + numbers[11:] == [None] * 10
    assert numbers[10] == unit_number("b")
    counts = counted(3, 1, numbers, [(0.0, 0, k) for k in range(len(numbers))])
    assert np.flatnonzero(counts).tolist() == [0, 10]


def test_units_are_the_same_read_at_once_and_one_by_one_in_every_format():
    rows = [b"a,%d,%d,%d" % (k % 3, k, 1) for k in range(40)]
    decoder = SchemaDecoder(SCHEMA.with_units("unit", 2), CsvFields(("n", "unit", "x", "z")))
    assert decoder.units(rows) == [decoder.unit(row) for row in rows]
    assert len(set(decoder.units(rows))) == 3
    lines = [b'{"unit": %d}' % (2**63 + k) for k in range(40)]
    large = SchemaDecoder(SCHEMA.with_units("unit", 2), json_fields)
    assert large.units(lines) == [large.unit(line) for line in lines]
    assert len(set(large.units(lines))) == 40


def test_the_number_of_a_unit_is_the_same_everywhere():
    assert unit_number("customer 7") == 0x1D2679353531630C
    assert unit_number("\ud800") != unit_number("\ud801")  # half of a surrogate pair, which JSON may hold


def test_the_earliest_by_time_partition_and_offset_counts():
    order = [(2.0, 0, 0), (1.0, 1, 5), (1.0, 0, 9), (0.5, 0, 1)]
    assert counted(1, 1, [4, 4, 4, None], order).tolist() == [False, False, True, False]


def test_what_does_not_count_is_computed_like_any_other_and_then_zero():
    seen = []

    class Watched(Logistic):
        def gradients(self, decision, observations):
            seen.append(observations.present.copy())
            return super().gradients(decision, observations)

    learner = replace(LEARNER, loss=Watched())
    stream = Stream("count", ((0, 0.0, "a", '"x": 1, "y": 2, "z": 1}'),) * 4, 1, 4, 1)
    (_, closed), *_ = stream.slots()
    lesson = learner.learn(1, Consensus(POINT), Decision(POINT), closed.observations, 0, None, closed.counts)
    assert [present.tolist() for present in seen] == [[True] * 4]
    first = closed.observations.map(lambda slot: Observations(*(part[:1] for part in slot)))
    alone = learner.learn(1, Consensus(POINT), Decision(POINT), first, 0)
    assert opened(lesson.gradient).tolist() == opened(alone.gradient).tolist()
