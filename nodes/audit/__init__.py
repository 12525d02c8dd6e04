"""What samples of a mechanism prove of it."""
