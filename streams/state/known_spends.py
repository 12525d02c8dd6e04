"""Combines what the state folder and the data broker know of all lives over a node's data."""

from collections.abc import Iterable
from typing import NamedTuple

from nodes.accounting.spends import Spend, merged
from streams.codec.topics import DataTopics


class Written(NamedTuple):
    """A state folder's line on the data broker; `folder` is that folder's id."""

    folder: str
    spend: Spend


class Known(NamedTuple):
    """All known lives over a node's data, and the source of this knowledge."""

    lives: tuple[Spend, ...] = ()
    by: str = "this folder"


def known_by(node: str, *, here: bool, there: bool) -> str:
    """Return the source of knowledge, in words: a state folder, the data broker's topic, or both."""
    knowing = ["this folder"] * here + [DataTopics(node).spends] * there
    return " and ".join(knowing)


def together(folder: str, here: Iterable[Spend], there: Iterable[Written]) -> tuple[Spend, ...]:
    """Return what is known of each life, from the folder with that id and from the broker's lines.

    Nothing shrinks, and unknown means unprotected. A life's own folder decides whether it is over; for lives
    of this folder its own file counts, not its line on the broker. They come last, in the file's order.
    """
    return tuple(_lives(folder, here, there).values())


def unwritten(folder: str, here: Iterable[Spend], there: Iterable[Written]) -> tuple[Spend, ...]:
    """Return the lives of which the folder knows more than the broker, and which it must write."""
    lines = tuple(there)
    known = _lives(folder, (), lines)
    found = _lives(folder, here, lines)
    return tuple(spend for life, spend in found.items() if known.get(life) != spend)


def _lives(folder: str, here: Iterable[Spend], there: Iterable[Written]) -> dict[tuple[str, ...], Spend]:
    written = list(there)
    holders = {one.spend.identity: one.spend.folder for one in written if one.spend.life}
    lines = [(int(one.folder == one.spend.folder), one.spend) for one in written]
    for spend in here:  # a line without a folder is this folder's, unless another folder has claimed it
        whose = spend.folder or holders.get(spend.identity, folder)
        lines.append((2 * (whose == folder), spend._replace(folder=whose)))
    lives: dict[tuple[str, ...], Spend] = {}
    for _, spend in sorted(lines, key=lambda line: line[0]):
        known = lives.pop(_identity(spend), None)
        lives[_identity(spend)] = spend if known is None else _both(known, spend)
    return lives


def _identity(spend: Spend) -> tuple[str, ...]:
    """Return the identity that lines of one life share; runs from before ids are one for each folder."""
    return spend.identity if spend.life else (*spend.identity, spend.folder)


def _both(known: Spend, spend: Spend) -> Spend:
    """Merge both; if both are over, the one that has read further gives the life's end.

    If one has no spans, the records may be any.
    """
    both = merged(known, spend)
    if not (known.spans and spend.spans):
        return both._replace(spans=())
    if known.open:
        return both
    ends = {span.where: span.end for span in known.spans}
    spans = (span._replace(end=max(span.end, ends.get(span.where, span.end))) for span in both.spans)
    return both._replace(spans=tuple(spans))
