"""What anybody who reads the mesh broker can know."""
