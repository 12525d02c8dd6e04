"""The journal of one node: durable before anybody hears."""
