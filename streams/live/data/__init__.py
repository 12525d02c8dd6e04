"""A node's own stream: Faust on the party's data broker."""
