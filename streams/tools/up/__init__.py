"""Runs a whole mesh on this machine, with a process for each node or with fewer processes."""
