"""What operators see: two registries, one for all who run the mesh, one for the party that owns the data."""
