"""How a process of a mesh ends."""


class Ended(Exception):
    """The process is done; `reason` is a line for its log."""

    exit_code = 0

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Failed(Ended):
    """The process cannot go on."""

    exit_code = 1
