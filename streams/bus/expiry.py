"""Until when a process's certificates last: it says so from two weeks before their end on.

They are read once, as the clients read them when the process starts.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import inf

from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.pem import certificates

SOON = timedelta(days=14)


class Expiry:
    """When the certificates in the settings of some brokers end; `brokers` by the name of their setting.

    Of a file of CAs the last one counts, of the own certificate and those above it the first one.
    """

    def __init__(self, brokers: Mapping[str, BrokerSettings]) -> None:
        self._ends: dict[str, datetime] = {}
        for name, broker in brokers.items():
            if broker.ca is not None:
                self._ends[f"{name}.ca"] = max(_ends(broker.ca))
            if broker.certificate is not None:
                self._ends[f"{name}.certificate"] = min(_ends(broker.certificate))

    @property
    def first(self) -> float:
        """When the first of them ends, in seconds since 1970; +Inf: there is none."""
        return min((end.timestamp() for end in self._ends.values()), default=inf)

    def soon(self) -> str | None:
        """Return a sentence on those that end within two weeks; None if none does."""
        now = datetime.now(UTC)
        near = {name: end for name, end in self._ends.items() if end < now + SOON}
        lines = [
            f"{name} {'ends' if end > now else 'ended'} on {end:%Y-%m-%d %H:%M} UTC"
            for name, end in near.items()
        ]
        return f"{', '.join(lines)}: renew it and restart" if lines else None


def _ends(path: str) -> list[datetime]:
    return [certificate.not_valid_after_utc for certificate in certificates(path)]
