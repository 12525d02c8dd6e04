"""What a sceptic can check: mechanisms as they stand, and what the edges of a mesh hold."""
