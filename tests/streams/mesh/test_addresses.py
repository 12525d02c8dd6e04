"""Where a process serves, read and judged."""

import pytest

from streams.mesh.settings.base import address, is_loopback


@pytest.mark.parametrize(
    ("text", "found", "loopback"),
    [
        ("9101", ("127.0.0.1", 9101), True),
        ("127.1.2.3:1", ("127.1.2.3", 1), True),
        ("localhost:65535", ("localhost", 65535), True),
        ("192.0.2.1:9101", ("192.0.2.1", 9101), False),
        ("sensors.example:9101", ("sensors.example", 9101), False),
        ("::1:9101", ("::1", 9101), True),
    ],
)
def test_a_port_alone_or_with_its_address(text, found, loopback) -> None:
    assert address(text) == found
    assert is_loopback(found) is loopback


@pytest.mark.parametrize("text", ["", "0", "65536", "9101:", ":9101", "here", "-1", "\u0663", "9" * 5000])
def test_anything_else_is_refused(text) -> None:
    with pytest.raises(ValueError, match="must be a port, or address:port, with a port from 1 to 65535"):
        address(text)
