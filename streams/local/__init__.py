"""What one party that runs a whole mesh can do with it: run, record, compare, score."""
