"""The node machine, sans-I/O: events in, effects out."""
