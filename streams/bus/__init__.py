"""Append-only topics of bytes: in memory, and on Kafka."""
