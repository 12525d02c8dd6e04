"""Runs machines as processes: one runner, roles, and the worlds that they run in."""
