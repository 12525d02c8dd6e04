"""The processes of a mesh on a broker: nodes and schedulers."""
