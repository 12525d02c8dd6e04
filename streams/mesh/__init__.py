"""The mesh file, and what it resolves to."""
