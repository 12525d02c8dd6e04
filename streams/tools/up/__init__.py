"""Runs a whole mesh on this machine, one process per node."""
