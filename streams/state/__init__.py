"""A node's files: its journal, and the spending on its data."""
