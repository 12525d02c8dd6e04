"""Losses of one observation, and their gradients."""
