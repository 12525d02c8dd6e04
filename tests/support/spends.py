"""What a folder knows of one reader's lives, without the comparison of data."""

from nodes.accounting.reuse import Reuse
from streams.state.spends import all_spends


def earlier_spends(state, node, run):
    """The lives of other runs."""
    return tuple(spend for spend in all_spends(state, node) if spend.run != run)


def reuse_beside(state, node, own):
    """All lives but `own`, as if all had read the same data in one order."""
    return Reuse(tuple(spend for spend in all_spends(state, node) if spend.identity != own.identity), own)


def reuse_of(spends, run):
    """The same, where the newest life of `run` is the own one."""
    own = next(spend for spend in reversed([*spends]) if spend.run == run)
    return Reuse(tuple(spend for spend in spends if spend is not own), own)
