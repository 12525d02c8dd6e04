"""A whole mesh in one process: bus, nodes and scheduler on virtual time."""
