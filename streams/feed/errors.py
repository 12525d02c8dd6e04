"""What can keep a feed from going on."""

from streams.bus import BusError


class FeedFailed(BusError):
    """The feed cannot go on; the text is one line for the user, and never shows a record."""
