"""A Kafka broker for development: one node on this machine's loopback, in a folder of its own."""
