"""Runs a whole mesh on this machine: a process for each node, or fewer."""
