"""Compose files, made of plain dictionaries: `project` puts together what the others make."""
