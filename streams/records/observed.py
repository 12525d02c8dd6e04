"""Makes observations of a slot's records. It is total: it works for any bytes."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from nodes.machine.events import SlotClosed
from nodes.machine.slots import ClosedSlot, Slots, TimeSlots
from nodes.privacy.private import Private
from nodes.privacy.unit import counted
from nodes.values import BoolArray, FloatArray, Observations
from streams.records.decoder import SchemaDecoder
from streams.records.record import Decoded, Decoder, SparseRow, TotalDecoder
from streams.records.sparse import LibsvmDecoder, sparse_observations


def slot_closed(slot: ClosedSlot[bytes], observations: Observations, decoder: Decoder) -> SlotClosed:
    """Return the slot for the machine; the content of its records is private from here on."""
    slot_truth = Private(truth(slot.values, decoder))
    places, counts = Private(slot.places), Private(counted_records(slot, decoder))
    return SlotClosed(slot.round, Private(observations), slot.position, places, slot_truth, slot.read, counts)


def kept_back(slot: ClosedSlot[bytes], decoder: Decoder) -> BoolArray | None:
    """Return which records of a slot are kept back, shape (n,); None: none of any slot."""
    chooser = decoder.kept_back if isinstance(decoder, TotalDecoder) else None
    return None if chooser is None else chooser.of(slot)


def counted_records(slot: ClosedSlot[bytes], decoder: Decoder) -> BoolArray | None:
    """Return which records of a slot count: those not kept back, or those in the seats of their units.

    None: all. No source has units and keeps records back.
    """
    withheld = kept_back(slot, decoder)
    if withheld is not None:
        return ~withheld
    if not isinstance(decoder, SchemaDecoder) or decoder.bound is None:
        return None
    order = [(time, *place) for time, place in zip(slot.times, slot.places, strict=True)]
    return counted(slot.round, decoder.bound.apart, decoder.units(slot.values), order)


def seated(slots: Callable[[], Slots[bytes]], decoder: Decoder) -> Callable[[], Slots[bytes]]:
    """Return the maker of slots; those by time keep the bound on the units of the decoder's records."""
    if not isinstance(decoder, SchemaDecoder) or decoder.bound is None:
        return slots
    gap, unit_of = decoder.bound.apart, decoder.unit

    def with_seats() -> Slots[bytes]:
        new_slots = slots()
        if isinstance(new_slots, TimeSlots):
            new_slots.apart, new_slots.unit_of = gap, unit_of
        return new_slots

    return with_seats


def has_truth(decoder: Decoder) -> bool:
    """Return whether records may hold the right decision."""
    return isinstance(decoder, SchemaDecoder) and bool(decoder.truth_columns)


def truth(values: tuple[bytes, ...], decoder: Decoder) -> FloatArray | None:
    """Return the truth (d,) of the last record that contains it, even if the rest of the record is
    unreadable.
    """
    if not isinstance(decoder, SchemaDecoder) or not decoder.truth_columns:
        return None
    return next((target for target in map(decoder.truth, reversed(values)) if target is not None), None)


def observed(values: tuple[bytes, ...], decoder: Decoder) -> Observations:
    """Return the records' observations, in order. A bad record gives an absent observation in its place.

    The slot is decoded at once where the decoder can, with the same bits as record by record. The function
    raises nothing: if decoding the whole slot fails, it decodes each record alone, and those that fail are
    absent.
    """
    try:
        arrays = decoder.at_once(values) if isinstance(decoder, SchemaDecoder) else None
        if arrays is not None and arrays[1] is not None:
            return Observations(arrays[0], arrays[1], np.ones(len(values), dtype=np.bool_))
        return _observations([decoder.decode(value) for value in values], decoder)
    except Exception:  # noqa: BLE001 # a record stops nothing; the exception may show it
        return _observations([_alone(value, decoder) for value in values], decoder)


def _alone(value: bytes, decoder: Decoder) -> Decoded | None:
    try:
        decoded = decoder.decode(value)
        _observations([decoded], decoder)
    except Exception:  # noqa: BLE001 # as above
        return None
    return decoded


def _observations(decoded: Sequence[Decoded | None], decoder: Decoder) -> Observations:
    if isinstance(decoder, LibsvmDecoder):
        return sparse_observations(
            cast("Sequence[tuple[SparseRow, float] | None]", decoded), decoder.dimension
        )
    features = np.zeros((len(decoded), decoder.dimension))
    labels = np.zeros(len(decoded))
    present = np.zeros(len(decoded), dtype=np.bool_)
    for k, pair in enumerate(decoded):
        if pair is not None:
            features[k], labels[k] = pair
            present[k] = True
    return Observations(features, labels, present)
