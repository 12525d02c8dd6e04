"""The wire: everything that touches a clock, a file, a socket or a terminal."""
