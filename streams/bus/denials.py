"""Says which right a process lacks, and what gives it: the same words at its start and while it runs."""

from streams.bus.bus import Denied


def lacking(subject: str, rights: str) -> str:
    """Return the words for rights that these credentials lack on a topic or group."""
    return f"{subject}: these credentials may not {rights}"


def given_by(user: str | None = None) -> str:
    """Return what gives a process its rights; `user`: the one that it should be."""
    to_user = "" if user is None else f" to the user {user}"
    return f"mirrormesh provision MESH --users gives the rights{to_user}, with an administrator's credentials"


def denied(servers: str, subject: str, rights: str, user: str | None = None) -> Denied:
    """Return the error of a process that lacks rights on a topic or group of a broker."""
    return Denied(f"{servers}: {lacking(subject, rights)} ({given_by(user)})")
