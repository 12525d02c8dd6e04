"""What a folder knows of one reader's lives, without the comparison of data; and the lines of a node."""

from nodes.accounting.reuse import Reuse
from streams.live.spend import begun_life, end_node
from streams.state.spends import all_spends, begin_life


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


def begin_spend(state, mesh, node, record, start, **stated):
    """Record that a node's run continues from `record`, or begins at `start`."""
    life = begun_life(state, mesh, node, record, start)._replace(**stated)
    return begin_life(state, life, fresh=record is None)


def end_spend(state, mesh, node, record):
    """Record how far it has got; nothing without a record."""
    if record is not None:
        end_node(state, mesh, node, record)
