"""Detects processes that run but whose heartbeats have stopped."""

SILENT = 5.0
"""Seconds without a heartbeat, of which one is sent a second, until a node counts as silent."""


class Silence:
    """Judges processes by their last heartbeats, on a clock that begins anew when the broker is back."""

    def __init__(self) -> None:
        self._away = float("-inf")

    def broker_away(self, now: float) -> None:
        """Note that the broker does not answer: nobody can be heard."""
        self._away = now

    def state(self, began: float, heard: float | None, now: float) -> str:
        """Return running, starting or `silent for 19 s`; `heard`: when its last heartbeat was sent."""
        if heard is None or heard < began:
            return "starting"
        seconds = now - max(heard, self._away)
        return f"silent for {seconds:,.0f} s" if seconds > SILENT else "running"
