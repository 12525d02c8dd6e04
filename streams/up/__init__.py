"""Everything of a mesh on this machine: a broker, a scheduler, nodes and feeders, one process each."""
