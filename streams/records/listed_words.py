"""Counts the listed words of a column in records: those that never occur, or occur in another case. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from streams.records.faults import some_of


class ListedWords:
    """Counts a column's values that are listed, and those that differ from a listed one by case alone.

    `place`: the key that lists the words.
    """

    def __init__(self, place: str, words: Sequence[str]) -> None:
        self._place, self._words = place, words
        self._exact = dict.fromkeys(words, 0)
        self._cased = Counter[str]()
        self._folded = {word.casefold(): word for word in words}

    def add(self, value: str | None) -> None:
        """Count a value; None: the record has none."""
        if value is None:
            return
        if value in self._exact:
            self._exact[value] += 1
        elif (word := self._folded.get(value.casefold())) is not None:
            self._cased[word] += 1

    def oddities(self, records: str) -> Iterator[str]:
        """Yield a line on the words that never occur, and one on each that occurs in another case.

        It names words of the list alone. `records`: what was looked at, in words.
        """
        never = [f'"{word}"' for word in self._words if not self._exact[word]]
        if never:
            occur = "occurs" if len(never) == 1 else "occur"
            yield f"{self._place}: {some_of(never)} never {occur} in {records}"
        for word, count in self._cased.items():
            differ = "differs" if count == 1 else "differ"
            yield f'{self._place}: {count:,} of {records} {differ} from "{word}" by case alone'
