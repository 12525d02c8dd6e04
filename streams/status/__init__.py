"""Reads what is public on the mesh broker: accounts, progress, audits."""
