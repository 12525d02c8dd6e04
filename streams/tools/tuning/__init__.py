"""Finds settings on public data."""
