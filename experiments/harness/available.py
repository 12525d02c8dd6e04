"""Whether the sets that experiments read are there: asked before hours go into what comes before them."""

from collections.abc import Iterable

from experiments.harness.data import load
from experiments.harness.star_data import STARS, star
from experiments.harness.texts import texts


def check_data(names: Iterable[str]) -> None:
    """Read each set once; Unavailable, which names it and where it is from, where one is missing."""
    for name in names:
        if name == "reuters":
            texts(name)
        elif name in STARS:
            star(name)
        else:
            load(name)
