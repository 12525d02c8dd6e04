"""A mesh on a broker, seen by whoever may read that: plans and heartbeats alone."""
