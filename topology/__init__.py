"""The graph and its schedule: who hears whom, with which weights, in which round. Pure."""
