"""The graph: who may speak to whom, with which weights, in which round. Pure."""
