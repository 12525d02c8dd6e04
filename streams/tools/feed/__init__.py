"""Feeds records to a node's data topic."""
