"""A whole mesh on this machine, a process each."""
