"""Metrics in two registries: one for all who run the mesh, one for the owner of the data."""
