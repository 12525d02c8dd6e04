"""The graph and its schedule: which node mixes whose releases, with which weights, in which round.

Pure functions.
"""
