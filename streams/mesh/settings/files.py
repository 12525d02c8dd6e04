"""Files in the settings: paths, `${NAME}` from the environment, which records to take, and YAML."""

import errno
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from streams.mesh.errors import MeshFileError, Problem
from streams.mesh.read_files import note_file, note_path
from streams.mesh.settings.base import Count, Settings, absent, refusal

# Settings of files: paths, `${NAME}` from the environment, and which records are used.

LONGEST_LINE = 1 << 20
"""The length of the longest line, in bytes. A longer line counts as an empty record."""
SMALL = 1 << 20
"""The largest size in bytes of a mesh file, a schema, or another file that is read whole."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_small(path: str | Path, most: int = SMALL) -> bytes:
    """Return the content of a file whose name may come from another party. Raises OSError.

    The file must be a regular one of at most `most` bytes. A device or a pipe may have no end, or block the
    read.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:  # Path.open takes no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "no regular file", str(path))
            note_file(file)
            content = file.read(most + 1)
    except ValueError:  # the path has a zero byte or half of a surrogate pair
        raise OSError(errno.EINVAL, "no path of a file", str(path)) from None
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20:,} MiB", str(path))
    return content


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a pipe without a writer would block for ever


def from_environment(value: object, info: ValidationInfo) -> object:
    """Replace each `${NAME}` in a text by the value of the environment's variable."""
    if not isinstance(value, str):
        return value
    environment: Mapping[str, str] = info.context["environment"] if info.context else {}
    missing = [name for name in _VARIABLE.findall(value) if name not in environment]
    if missing:
        raise refusal(f"the environment has no variable {missing[0]}: must be set")
    return _VARIABLE.sub(lambda match: environment[match[1]], value)


def is_path(text: str) -> bool:
    """Return whether a text can be a path: not empty, without zero bytes and halves of surrogate pairs."""
    try:
        return bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _resolved(value: object, info: ValidationInfo) -> object:
    """Read a path, relative to the file that names it."""
    path = from_environment(value, info)
    if not isinstance(path, str) or not is_path(path):
        raise refusal("must be a path, or - for standard input")
    if path == "-":
        return path
    resolved = beside(path, info)
    note_path(resolved)
    return resolved


def beside(path: str, info: ValidationInfo) -> str:
    """Return a path relative to the working folder. As written it is relative to the file that names it."""
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
    """Which records of a file are used. So several nodes can share one file."""

    every: Count
    """The number of parts. With slots by count a part is every k-th record, where k is this number. With
    slots by time a hash of a record's bytes chooses its part. Parts may be uneven then, as identical records
    are in the same part."""
    offset: int = Field(0, ge=0)
    """The part that is used, counted from 0. With slots by count it is the number of records before the first
    one used."""

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.offset >= self.every:
            raise refusal(f"must be below {self.every}, the value of every", "offset")
        return self


def _share(value: Any) -> Any:
    if value is not None and (type(value) not in {int, float} or not 0 < value <= 0.5):
        raise refusal("must be a share above 0 and up to 0.5")
    return value


KeepBack = Annotated[float | None, BeforeValidator(_share), Field(exclude_if=absent)]
"""The share of records that are not learnt from."""


# Reads and writes YAML. It reads YAML 1.2, where `on` and 007 are words and 1e-3 is a number. Keys must not
# repeat.


class _Loader(yaml.SafeLoader):
    """A SafeLoader with the core schema of YAML 1.2 in place of 1.1. Every key must be text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 # yaml's own name
    _written = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node. Raises ConstructorError if there are too many; nothing more is read then."""
        self._written += 1
        if self._written > _MOST_WRITTEN:
            many = f"has more than {_MOST_WRITTEN:,} values and keys"
            raise yaml.constructor.ConstructorError(None, None, many, self.get_mark())
        return super().compose_node(parent, index)

    def get_single_node(self) -> Any:
        """Return the document's node. Raises ConstructorError if its aliases expand to too many values."""
        node = super().get_single_node()
        if node is not None:
            _spelt_out(node, {})
        return node


_MOST_WRITTEN = 100_000
"""The largest number of values and keys in a file as it is written. Reading one takes about 30
microseconds."""
_MOST = 500_000
"""The largest number of values in a file with every alias expanded. Each reader visits all of them."""


def _spelt_out(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many values a node has with its aliases expanded. It visits each node once."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    size = sizes.get(id(node))
    if size is None:
        sizes[id(node)] = 0  # an alias within its own value, which the constructor refuses, counts 0
        parts = (
            node.value
            if isinstance(node, yaml.SequenceNode)
            else [child for pair in node.value for child in pair]
        )
        size = sizes[id(node)] = 1 + sum(_spelt_out(part, sizes) for part in parts)
        if size > _MOST:
            many = f"aliases that stand for more than {_MOST:,} values"
            raise yaml.constructor.ConstructorError(None, None, many, node.start_mark)
    return size


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(None, None, "a key must be text", key.start_mark)
        if key.value in mapping:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key.value} is there twice", key.start_mark
            )
        mapping[key.value] = loader.construct_object(value, deep=True)
    return mapping


def _int(_: _Loader, node: yaml.ScalarNode) -> int:
    try:
        return int(node.value)
    except ValueError:  # int refuses thousands of digits
        raise yaml.constructor.ConstructorError(
            None, None, "the number is too long", node.start_mark
        ) from None


def _float(_: _Loader, node: yaml.ScalarNode) -> float:
    text = node.value.lower()
    if text.endswith(".nan"):
        return math.nan
    return float(text.replace(".inf", "inf"))


class _Dumper(yaml.SafeDumper):
    """A SafeDumper that writes no aliases, and quotes text that YAML 1.1 or 1.2 would not read as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 # yaml's own name
        key: [*pairs] for key, pairs in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 # as yaml calls it
        return True


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+0123456789."),
    ),
):
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Represent text of several lines as a block, so that it is readable."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(tree: Any) -> str:
    """Return YAML that readers of YAML 1.1 and of 1.2 read as the same tree."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def from_yaml(text: str) -> Any:
    """Return the content of a text without mistakes."""
    return yaml.load(text, _Loader)  # noqa: S506 # a SafeLoader


def as_flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=True, width=math.inf)
    return text.removesuffix("\n").removesuffix("...").removesuffix("\n")


def _without_names(problem: str) -> str:
    """Return a problem without the word that it quotes: it may be a password without quotes that begins with
    * or !.
    """
    if "alias" not in problem and "tag" not in problem:
        return problem
    return re.sub(" ['\"].*['\"]$", ": a text that begins with * or ! must be in quotes", problem)


def read_yaml(path: Path) -> Any:
    """Return the file's content.

    Raises MeshFileError, with line and column, if it is unreadable or no YAML.
    """
    try:
        return from_yaml(read_small(path).decode("utf-8-sig"))
    except OSError as error:
        reason = f"cannot be read: {error.strerror or 'no such file'}"
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8: must be a YAML file"
    except RecursionError:
        reason = "is nested too deeply: must be a YAML file"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = error.problem or ""
        context = f"{error.context}, " if problem.startswith("but") else ""
        reason = f"{place}{context}{_without_names(problem)}"
    except (yaml.YAMLError, ValueError) as error:
        reason = f"is not YAML: {error}"
    raise MeshFileError([Problem(str(path), (), reason).line])
