"""Feeds a node's records to its data topic: each once, in order, and a start goes on where the last ended."""
