"""What can go wrong with the development broker, each in words for the user."""


class BrokerError(Exception):
    """The broker cannot be had; the text is one line, where there is a log with its last lines below."""


class Missing(BrokerError):
    """A program is missing on this machine; the text says what to install."""


class Misused(BrokerError):
    """What was asked for cannot be: another folder, port or kind is needed."""
