"""Samplers that fail."""

import opendp.prelude as dp


def narrow(scale):
    """A measurement of other integers: it fails, and OpenDP's error shows the values."""
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i32"))
    return dp.m.make_laplace(domain, dp.l1_distance(T="i32"), scale=scale)
