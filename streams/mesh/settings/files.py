"""Shared settings of files: paths, `${NAME}` from the environment, and which records to take."""

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from streams.mesh.settings.base import Count, Settings, refusal

LONGEST_LINE = 1 << 20
"""Longest line in bytes: a longer one counts as an empty record."""
SMALL = 1 << 20
"""The most bytes of a mesh file, a schema, or another file that is read whole."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_small(path: str | Path, most: int = SMALL) -> bytes:
    """Return what a file holds that somebody else may have named. Raises OSError.

    It must be a regular file, as a device or a pipe may have no end, or never begin, and of `most` bytes.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:  # Path.open takes no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "no regular file", str(path))
            content = file.read(most + 1)
    except ValueError:  # a zero byte, or half a character
        raise OSError(errno.EINVAL, "no path of a file", str(path)) from None
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20:,} MiB", str(path))
    return content


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe that nobody writes to would hold this up for ever


def from_environment(value: object, info: ValidationInfo) -> object:
    """Replace `${NAME}` by the environment's variable."""
    if not isinstance(value, str):
        return value
    environment: Mapping[str, str] = info.context["environment"] if info.context else {}
    missing = [name for name in _VARIABLE.findall(value) if name not in environment]
    if missing:
        raise refusal(f"the environment has no variable {missing[0]}: must be set")
    return _VARIABLE.sub(lambda match: environment[match[1]], value)


def is_path(text: str) -> bool:
    """Return whether a text can be a path: not empty, no zero byte, no half of a character."""
    try:
        return bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _resolved(value: object, info: ValidationInfo) -> object:
    """Read a path, relative to the file that names it."""
    path = from_environment(value, info)
    if not isinstance(path, str) or not is_path(path):
        raise refusal("must be a path, or - for standard input")
    return path if path == "-" else beside(path, info)


def beside(path: str, info: ValidationInfo) -> str:
    """Return a path as it is from here; as written it is relative to the file that names it."""
    folder: Path = info.context["folder"] if info.context else Path()
    return os.path.normpath(folder / path)


RecordBytes = Annotated[int, Field(ge=1, le=LONGEST_LINE)] | None
"""`max_record_bytes`: a longer record is malformed and not parsed.

The default is max(16 KiB, 64 d), d the larger of the mesh's dimension and a record's features, at most 1 MiB.
"""
FilePath = Annotated[str | None, BeforeValidator(_resolved)]
FromEnvironment = BeforeValidator(from_environment)


def check_shuffle(path: str | None, *, shuffle: bool) -> None:
    """Refuse to shuffle standard input."""
    if shuffle and path == "-":
        raise refusal("standard input cannot be shuffled: must be false", "shuffle")


class TakeSettings(Settings):
    """Selects some of the records, to split one file over nodes."""

    every: Count
    """The number of parts. With slots by count a part is each record of this many. With slots by time a
    hash of its own bytes chooses a record's part: parts may be uneven, as identical records are in one."""
    offset: int = Field(0, ge=0)
    """The part that is taken, counted from 0. With slots by count it is the number of records before the
    first one taken."""

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.offset >= self.every:
            raise refusal(f"must be below {self.every}, the value of every", "offset")
        return self
