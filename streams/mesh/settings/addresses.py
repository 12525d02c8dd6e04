"""Addresses to serve on: `[ADDRESS:]PORT`, in a mesh file and on the command line."""

from ipaddress import ip_address

Address = tuple[str, int]

_ALLOWED = "must be a port, or address:port, with a port from 1 to 65535"


def address(text: str) -> Address:
    """Return the (address, port) in `text`; a port alone means 127.0.0.1. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16) or (colon and not host):
        raise ValueError(_ALLOWED)
    return host or "127.0.0.1", int(port)


def is_loopback(address: Address) -> bool:
    """Return whether only this machine can reach it; names other than `localhost` count as reachable."""
    try:
        return ip_address(address[0]).is_loopback
    except ValueError:
        return address[0] == "localhost"
