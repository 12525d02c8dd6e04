"""The bound on the records of a unit, on records that are read from a topic of a real broker."""

import json

import numpy as np
import pytest

from nodes.machine.slots import CountSlots, TimeSlots
from nodes.privacy.reveal import opened
from nodes.privacy.unit import has_seat, unit_number
from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import SchemaDecoder, json_fields
from tests.support.brokers.data_streams import DataTopic, live_stream

pytestmark = pytest.mark.kafka
SCHEMA = SchemaSettings.model_validate({"features": {"x": "number"}, "label": {"column": "y"}})
APART, ROUNDS, SIZE = 3, 6, 4


def lines(count):
    return [json.dumps({"who": k % 3, "x": k, "y": 1}).encode() for k in range(count)]


def learnt(live, rounds):
    """Return (round, unit) of each record that counts."""
    position, counting = (), []
    for round in range(1, rounds + 1):
        slot = live.slot(round, position)
        position = slot.position
        counts, places = opened(slot.counts), opened(slot.places)
        counting += [(round, places[k][1] % 3) for k in np.flatnonzero(counts)]
    return counting


def seats(rounds):
    return {
        (round, unit)
        for round in range(1, rounds + 1)
        for unit in range(3)
        if has_seat(unit_number(str(unit)), round, APART)
    }


def test_a_unit_has_one_record_in_each_of_its_seats(broker, tmp_path):
    topic = DataTopic(broker.address)
    topic.send(lines(ROUNDS * SIZE))
    decoder = SchemaDecoder(SCHEMA.with_units("who", APART), json_fields)
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(SIZE), decoder=decoder) as live:
        counting = learnt(live, ROUNDS)
    assert live.failed is None
    assert len(counting) == len(set(counting))
    assert set(counting) == seats(ROUNDS)


def test_with_slots_by_time_the_bound_comes_before_the_limit(broker, tmp_path):
    topic, start = DataTopic(broker.address), 1_700_000_000
    for k, line in enumerate(lines(ROUNDS * 6)):
        topic.send([line], timestamp=(start + k // 6) * 1000 + k % 6)
    decoder = SchemaDecoder(SCHEMA.with_units("who", APART), json_fields)
    slots = lambda: TimeSlots(3, start=start, period=1.0, grace=0.2)  # noqa: E731
    with live_stream(topic, tmp_path, slots=slots, decoder=decoder) as live:
        counting = learnt(live, ROUNDS)
    assert live.failed is None
    assert len(counting) == len(set(counting))
    assert set(counting) == seats(ROUNDS)
