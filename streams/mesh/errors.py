"""The errors of a user's input. Each mistake is one line: what is wrong, and what is allowed."""

import json
import operator
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from streams.mesh.read_files import is_read

ABSENT = object()
"""Means that a mistake has no value to show."""
_LONGEST = 80
_NAMES = 8
"""The largest number of places that one line names."""
_LINES = 200
"""The largest number of mistakes that one error lists. A file of 1 MiB can have 100,000."""
_HIDDEN = frozenset({"brokers", "registry"})
_SECRET = re.compile("pass?word|passphrase|secret", re.IGNORECASE)
"""Words in a setting's name by which its value may be a secret, also where the setting does not exist."""
_ALLOWED = {
    "missing": "missing: must be given",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_pattern_mismatch": "must be made of a-z, 0-9 and -, and not begin with -",
    "string_too_short": "must not be empty",
    "string_too_long": "must be of at most {max_length} characters",
    "literal_error": "must be {expected}",
    "finite_number": "must be finite",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be below {lt:.15g}",
    "less_than_equal": "must be at most {le:.15g}",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length}",
    "refused": "{text}",
}


def one_of(allowed: Iterable[str], given: object) -> str:
    """Return the clause that lists the allowed words, and `meant`'s question."""
    words = list(allowed)
    return f"must be one of {', '.join(words)}{meant(words, given)}"


def meant(allowed: Iterable[str], given: object) -> str:
    """Return the question whether the user meant the word that `given` resembles; empty if none does."""
    near = get_close_matches(given, allowed, 1) if isinstance(given, str) else ()
    return "".join(f" (did you mean {word}?)" for word in near)


_SOURCE = re.compile(r"\bnodes\.([a-z0-9-]+)\.source\b|\bheld_out\b")


def told_once(lines: Iterable[str]) -> list[str]:
    """Return the lines, merging those that differ only in the source that they concern.

    The merged line names all these sources.
    """
    alike: dict[str, list[str]] = {}
    for line in dict.fromkeys(lines):
        alike.setdefault(_SOURCE.sub("*", line), []).append(line)
    texts = []
    for first, *repeated in alike.values():
        places = [match for match in map(_SOURCE.search, repeated) if match]
        names = [match[1] or match[0] for match in places]
        shown_names = names if len(names) <= _NAMES else [*names[:_NAMES], f"{len(names) - _NAMES:,} more"]
        texts.append(f"{first} (the same in {', '.join(shown_names)})" if shown_names else first)
    return texts


class MeshFileError(Exception):
    """A mesh file, or a file that it names, is wrong.

    `lines` has one line per mistake. If there are too many, the last line counts the others.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        distinct = tuple(dict.fromkeys(lines))
        surplus = len(distinct) - _LINES
        self.lines = distinct if surplus <= 0 else (*distinct[:_LINES], f"{surplus:,} more mistakes")
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: `path` is the key path, `allowed` says what is allowed."""

    file: str
    path: tuple[str | int, ...]
    allowed: str
    value: object = ABSENT

    @property
    def line(self) -> str:
        """The mistake in one line. It hides values under `brokers`, and those of passwords elsewhere."""
        parts = [self.file]
        if self.path:
            parts.append("".join(_key(key) for key in self.path).removeprefix("."))
        if self.value is not ABSENT:
            secret = any(map(_is_secret, self.path)) or _holds_secret(self.value)
            parts.append("(hidden)" if secret else _shown(self.value))
        return printable(": ".join([*parts, " ".join(self.allowed.split())]))


def problems(file: str, path: tuple[str | int, ...], tree: object, error: ValidationError) -> list[Problem]:
    """Return the mistakes that pydantic found in `tree`, at `path` of the file."""
    details_list = error.errors(include_url=False)
    places = [details["loc"] for details in details_list]
    return [
        _problem(file, path, tree, details)
        for details in details_list
        # pydantic reports a list as too short also where its items were refused; the items' own errors are
        # clearer.
        if details["type"] != "too_short" or not _has_inner(places, details["loc"])
    ]


def _has_inner(places: list[tuple[int | str, ...]], place: tuple[int | str, ...]) -> bool:
    return any(len(inner) > len(place) and inner[: len(place)] == place for inner in places)


_EXPECTED = re.compile(r"""(['"])(?P<word>.+?)\1(?=, | or |$)""")
"""A word in pydantic's list of allowed words. The word may be a quote itself."""


def _problem(file: str, path: tuple[str | int, ...], tree: object, details: ErrorDetails) -> Problem:
    context: Mapping[str, Any] = details.get("ctx", {})
    location = [*details["loc"], *context.get("keys", ())]
    keep_last = details["type"] == "missing" or bool(context.get("keys"))
    if location[-1:] == ["[key]"]:  # the key is wrong, not its value
        value: object = location[-2]
        keys, _ = _walk(tree, location[:-2], keep_last=False)
    else:
        keys, value = _walk(tree, location, keep_last=keep_last)
    if "expected" in context:
        words = [match["word"] for match in _EXPECTED.finditer(context["expected"])]
        context = {
            **context,
            "expected": _EXPECTED.sub(r"\g<word>", context["expected"]) + meant(words, value),
        }
    template = _ALLOWED.get(details["type"])
    allowed = template.format(**context) if template else details["msg"].replace("Input should be", "must be")
    return Problem(file, (*path, *keys), allowed, value)


def _walk(tree: Any, where: list[str | int], *, keep_last: bool) -> tuple[list[str | int], object]:
    """Follow pydantic's path through the file. It leaves out parts of the path that are not in the file.

    Such a part is a union's tag: pydantic's path has the `kind` behind a mapping with a `kind`. A key may
    have the same name, as `topic` has in a source of kind `topic`.
    """
    keys: list[str | int] = []
    tag: object = None
    for k, key in enumerate(where):
        if tag is not None and key == tag:
            tag = None
            continue
        if key in (tree if isinstance(tree, Mapping) else range(len(tree) if isinstance(tree, list) else 0)):
            tree = tree[key]
            tag = tree.get("kind") if isinstance(tree, Mapping) else None
        elif keep_last and k == len(where) - 1:
            return [*keys, key], ABSENT
        else:
            continue
        keys.append(key)
    return keys, tree


def _key(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    # `password:mine` and `password=mine`, in which a blank is missing, are keys that contain a password
    return ".(hidden)" if _SECRET.search(key) and not re.fullmatch(r"[\w-]+", key) else f".{elided(key)}"


def _is_secret(key: object) -> bool:
    return key in _HIDDEN or (isinstance(key, str) and _SECRET.search(key) is not None)


def _holds_secret(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_is_secret(key) or _holds_secret(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_holds_secret, value))


def _shown(value: object) -> str:
    return elided(json.dumps(value, default=str, ensure_ascii=False))


def printable(text: str) -> str:
    """Return the text with characters that a terminal would obey or could not show as escapes.

    These are control characters, line breaks other than newlines, and halves of surrogate pairs.
    """
    return (
        text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    )


def elided(text: str) -> str:
    """Return the text; of a long text only its two ends."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 2 :]}"


class UsageError(Exception):
    """The user's input cannot be used; the text is one line for the user."""


def chosen(nodes: Iterable[str], node: str | None, kind: str = "a node of the mesh") -> list[str]:
    """Return [node], or all nodes for None. Raises UsageError if the node is not of the `kind`."""
    names = list(nodes)
    if node is None:
        return names
    if node not in names:
        raise UsageError(f"{node}: not {kind}: {one_of(names, node)}")
    return [node]


def no_file(state: Path | None) -> Path | None:
    """Return the state folder, which may be missing. Raises UsageError if it is a file."""
    # Without a journal the caller would ask the broker, which knows of fewer charged rounds.
    if state is not None and state.exists() and not state.is_dir():
        raise UsageError(f"--state {state}: is a file: must be the folder of the journals")
    return state


def writable_folder(folder: Path, files: Iterable[str] = ()) -> Path:
    """Return the folder, created if missing. Raises UsageError unless `files` can be written in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise UsageError(f"{folder}: is a file: must be a folder, or not there yet") from None
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written to: {error.strerror}") from None
    for name in files:
        if (folder / name).is_dir():
            raise UsageError(f"{folder / name}: is a folder: must be a file, or not there yet")
        check_output(folder / name)
    return folder


def check_output(path: Path) -> None:
    """Raise UsageError if the current command reads the file that it is about to write."""
    if is_read(path):
        raise UsageError(f"{path}: this command reads it: must be another file, or not there yet")


# Checks of arguments that a program passes to the functions of `mirrormesh`. A wrong argument is one
# UsageError, which names the argument, what was passed, and what is allowed. Mistakes in files are
# MeshFileErrors.


def refused(name: str, value: object, allowed: str) -> UsageError:
    """Return the error for an argument.

    The text shows numbers and texts, and names only the type of other values.
    """
    simple = value is None or isinstance(value, str | bytes | bool | int | float | Path)
    text = elided(repr(value)) if simple else f"a value of type {type(value).__name__}"
    return UsageError(printable(f"{name} is {text}: {allowed}"))


def as_path(name: str, value: object) -> Path:
    """Return the path of an argument that is a `str` or `Path`. Raises UsageError."""
    if not isinstance(value, str | Path) or not str(value):
        raise refused(name, value, "must be a path, as str or pathlib.Path")
    return Path(value)


def as_path_or_none(name: str, value: object) -> Path | None:
    """Return `as_path`, or None for None. Raises UsageError."""
    return None if value is None else as_path(name, value)


def as_file(name: str, value: object) -> str:
    """Return the path of a file of records as text; `-` is standard input. Raises UsageError."""
    return str(as_path(name, value))


def as_count(name: str, value: object, least: int) -> int:
    """Return the argument if it is a whole number of at least `least`. Raises UsageError."""
    allowed = f"must be a whole number of at least {least}"
    if isinstance(value, bool):
        raise refused(name, value, allowed)
    try:
        number = operator.index(value)  # type: ignore[arg-type] # numpy's integers are taken too
    except TypeError:
        raise refused(name, value, allowed) from None
    if number < least:
        raise refused(name, value, allowed)
    return number


def as_count_or_none(name: str, value: object, least: int) -> int | None:
    """Return `as_count`, or None for None. Raises UsageError."""
    return None if value is None else as_count(name, value, least)


def check_type(name: str, value: object, types: Any, allowed: str) -> None:
    """Raise UsageError unless the value is of the type, or of one of the types.

    A bool does not count as a number.
    """
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        raise refused(name, value, allowed)


def check_word(name: str, value: object, words: Iterable[str]) -> None:
    """Raise UsageError unless the value is one of the words."""
    allowed = list(words)
    if not isinstance(value, str) or value not in allowed:
        raise refused(name, value, one_of(allowed, value))


def texts(name: str, value: object) -> list[str]:
    """Return the texts in an argument that is an iterable of texts.

    Raises UsageError, also for a single text.
    """
    allowed = "must be a list of texts"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise refused(name, value, allowed)
    items = list(value)
    for item in items:
        check_type(name, item, str, allowed)
    return items


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to an error of writing it. The system's error of a full disk has no name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
