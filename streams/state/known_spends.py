"""What is known of all lives over a node's data: by its state folder and by the data broker, together."""

from collections.abc import Iterable
from typing import NamedTuple

from nodes.accounting.spends import Spend, merged
from streams.codec.topics import DataTopics


class Written(NamedTuple):
    """A line that a state folder has written to the data broker; `folder` is that folder's id."""

    folder: str
    spend: Spend


class Known(NamedTuple):
    """What is known of all lives over a node's data, and by whom."""

    lives: tuple[Spend, ...] = ()
    by: str = "this folder"


def known_by(node: str, *, here: bool, there: bool) -> str:
    """Return who knows of earlier lives: a state folder, the data broker's topic, or both."""
    knowing = ["this folder"] * here + [DataTopics(node).spends] * there
    return " and ".join(knowing)


def together(folder: str, here: Iterable[Spend], there: Iterable[Written]) -> tuple[Spend, ...]:
    """Return what is known of each life, by what the folder of that id says and by what was written.

    Nothing shrinks, and what is not known is unprotected. Whether a life is over its own folder knows: it has
    the last word, this one before what it has written. Lives of this folder come last, as it gives them.
    """
    return tuple(_lives(folder, here, there).values())


def unwritten(folder: str, here: Iterable[Spend], there: Iterable[Written]) -> tuple[Spend, ...]:
    """Return the lives of which the folder knows more than was written: to be written by it."""
    lines = tuple(there)
    known = _lives(folder, (), lines)
    found = _lives(folder, here, lines)
    return tuple(spend for life, spend in found.items() if known.get(life) != spend)


def _lives(folder: str, here: Iterable[Spend], there: Iterable[Written]) -> dict[tuple[str, ...], Spend]:
    written = list(there)
    holders = {one.spend.identity: one.spend.folder for one in written if one.spend.life}
    lines = [(int(one.folder == one.spend.folder), one.spend) for one in written]
    for spend in here:  # one that does not say its folder is this one's, unless another has said so
        whose = spend.folder or holders.get(spend.identity, folder)
        lines.append((2 * (whose == folder), spend._replace(folder=whose)))
    lives: dict[tuple[str, ...], Spend] = {}
    for _, spend in sorted(lines, key=lambda line: line[0]):
        known = lives.pop(_identity(spend), None)
        lives[_identity(spend)] = spend if known is None else _both(known, spend)
    return lives


def _identity(spend: Spend) -> tuple[str, ...]:
    """Return what lines of one life share; runs from before lives had ids are one for each folder."""
    return spend.identity if spend.life else (*spend.identity, spend.folder)


def _both(known: Spend, spend: Spend) -> Spend:
    """Return both together; of two that are over the one that has read further says where the life ended.

    Where one says of no record where it stands, it may be any.
    """
    both = merged(known, spend)
    if not (known.spans and spend.spans):
        return both._replace(spans=())
    if known.open:
        return both
    ends = {span.where: span.end for span in known.spans}
    spans = (span._replace(end=max(span.end, ends.get(span.where, span.end))) for span in both.spans)
    return both._replace(spans=tuple(spans))
