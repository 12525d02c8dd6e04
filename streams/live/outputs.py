"""Writes decisions and predictions for the party's applications."""

import json
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from threading import Condition

import numpy as np
import orjson

from nodes.losses.evaluation import predicted
from nodes.losses.losses import Loss
from nodes.machine.events import BeforeStep, Decided
from nodes.machine.slots import Place
from nodes.privacy.owner import disclosed_to_owner
from nodes.values import Decision, FloatArray, Observations
from streams.bus.bus import BusError
from streams.bus.kafka import KafkaBus
from streams.log_events import LogEvent

LOGGER = logging.getLogger("mirrormesh.node")


def as_json(value: dict[str, object]) -> bytes:
    """Return finite numbers, arrays of them, text and None as JSON, each number with all its bits."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:  # a class's name may hold half a character, which UTF-8 cannot
        return json.dumps(value, default=np.ndarray.tolist).encode()


class Decisions:
    """Writes decisions to `topic`: JSON with run, round and x, all public. At least once, in order.

    `decided` is the time of the decision, in seconds since 1970. With slots by time `slot` is the time at
    which the round's slot begins, by `slot_begins`; the difference shows how late a decision is. A broker
    that accepts no decisions does not stop the node: decisions beyond the producer's queue are dropped and
    logged. The decision of every `horizon`-th round, and of the `last` one, also has the average of all
    decisions so far.
    """

    def __init__(
        self,
        bus: KafkaBus,
        topic: str,
        run: str,
        slot_begins: Callable[[int], float] | None = None,
        clock: Callable[[], float] = time.time,
        *,
        horizon: int,
        last: int | None = None,
    ) -> None:
        self._bus, self._topic, self._run = bus, topic, run
        self._horizon, self._last = horizon, last
        self._slot_begins, self._clock = slot_begins, clock

    def write(self, decided: Decided) -> None:
        """Write one decision."""
        if not np.isfinite(decided.decision).all():  # orjson would write null
            LOGGER.warning("a decision was not written: it is not finite", extra=LogEvent.OUTPUT_LOST.of())
            return
        decision = np.ascontiguousarray(decided.decision)  # orjson takes no other
        value: dict[str, object] = {"run": self._run, "round": decided.round, "x": decision}
        with_average = decided.round % self._horizon == 0 or decided.round == self._last
        if with_average and decided.average is not None:
            value["average"] = np.ascontiguousarray(decided.average.mean)
        if self._slot_begins is not None:
            value["slot"] = self._slot_begins(decided.round)
        value["decided"] = self._clock()
        try:
            self._bus.send(self._topic, as_json(value))
            self._bus.serve()
        except BusError as error:
            LOGGER.warning("a decision was not written: %s", error, extra=LogEvent.OUTPUT_LOST.of())


WAIT = 1.0
"""The longest time in seconds that a step waits for acknowledgements. It does not wait after the broker has
failed."""


class SharedBus:
    """A bus on which several threads wait for their acknowledgements. One of the threads serves all."""

    def __init__(self, bus: KafkaBus) -> None:
        self._bus, self.send = bus, bus.send
        self._turn = Condition()
        self._served = False  # by one of the waiting threads

    def wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Serve the bus until `is_done`, for up to `seconds`; return whether it is. Raises BusError."""
        until = time.monotonic() + seconds
        with self._turn:
            while not is_done():
                seconds_left = until - time.monotonic()
                if seconds_left <= 0:
                    return False
                if self._served:
                    self._turn.wait(seconds_left)
                else:
                    self._serve(min(seconds_left, _SLICE))
        return True

    def serve(self) -> None:
        """Handle the available acknowledgements, unless another thread does. Raises BusError."""
        with self._turn:
            if not self._served:
                self._serve(0.0)

    def _serve(self, seconds: float) -> None:
        """Serve the bus while others may wait. The caller has the turn before and after the call."""
        self._served = True
        self._turn.release()
        try:
            self._bus.serve(seconds)
        finally:
            self._turn.acquire()
            self._served = False
            self._turn.notify_all()


_SLICE = 0.1  # seconds that one waits for reports, before it sends refused records again


class Predictions:
    """Writes predictions of x_t for each record of slot t to `topic`, before anything is learnt from it.

    Predictions are JSON with run, round, partition, offset and prediction (null: the record cannot be read),
    with the key `<partition>:<offset>`. `write` sends predictions, and `settle` waits until they are
    acknowledged. The thread that journals the step calls `settle` first. So after a crash predictions may be
    written twice, and none is missing. A broker that accepts no predictions does not stop the node. With
    `classes` the prediction is the class's index, and the class's name is added. `observed`: the part of a
    decision that the loss sees. Nodes may share the bus.
    """

    def __init__(
        self,
        bus: SharedBus,
        topic: str,
        run: str,
        loss: Loss,
        classes: tuple[str, ...] = (),
        observed: Callable[[FloatArray], FloatArray] = lambda x: x,
    ) -> None:
        self._bus, self._topic, self._run, self._loss, self._classes = bus, topic, run, loss, classes
        self._observed = observed
        self._waiting = deque[None]()  # one for each that is not acknowledged: atomic in any thread
        self._behind = False

    def write(self, before_step: BeforeStep) -> None:
        """Write the predictions of one slot."""
        observations, places = (
            disclosed_to_owner(before_step.observations),
            disclosed_to_owner(before_step.places),
        )
        try:
            numbers = self._numbers(before_step.decision, observations)
            for place, prediction in zip(places, numbers, strict=True):
                self._send(before_step.round, place, prediction)
        except BusError as error:
            text = "a slot's predictions were not all written: %s"
            LOGGER.warning(text, error, extra=LogEvent.OUTPUT_LOST.of())

    def _numbers(self, decision: Decision, observations: Observations) -> list[float | None]:
        """Return one prediction for each record, even if a user-defined loss fails."""
        size = len(observations.present)
        try:
            with np.errstate(all="ignore"):
                numbers = predicted(self._loss, self._observed(decision), observations.features)
                numbers = np.where(observations.present & np.isfinite(numbers), numbers, np.nan)
        except Exception:  # noqa: BLE001 # a record stops nothing, and no log shows that it has failed
            return [None] * size
        return [None if math.isnan(number) else number for number in numbers.tolist()]

    def _send(self, round: int, place: Place, prediction: float | None) -> None:
        partition, offset = place
        value: dict[str, object] = {
            "run": self._run,
            "round": round,
            "partition": partition,
            "offset": offset,
            "prediction": prediction,
        }
        if self._classes:
            place_of = None if prediction is None else int(prediction)
            name = None if place_of is None else self._classes[place_of]
            value |= {"prediction": place_of, "class": name}
        self._waiting.append(None)
        try:
            key = f"{partition}:{offset}".encode()
            self._bus.send(self._topic, as_json(value), self._taken, key)
        except BusError:
            self._waiting.pop()
            raise

    def _taken(self) -> None:
        self._waiting.pop()

    def settle(self) -> None:
        """Wait until all records are acknowledged, but not at all while the broker accepts none.

        In any thread.
        """
        try:
            if self._behind:
                self._bus.serve()
                self._behind = bool(self._waiting)
            else:
                self._behind = not self._bus.wait(lambda: not self._waiting, WAIT)
        except BusError as error:
            text = "predictions were not all written: %s"
            LOGGER.warning(text, error, extra=LogEvent.OUTPUT_LOST.of())
