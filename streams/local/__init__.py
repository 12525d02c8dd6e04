"""Runs a whole mesh in one process, for one party: run, record, compare, score."""
