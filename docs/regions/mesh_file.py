"""Every key of a mesh file, from the settings' own types and docstrings."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

import streams.mesh
from docs.regions.setting_values import takes_none, value
from streams.collaboration.settings import CollaborationSettings, OwnerSettings
from streams.mesh.settings.base import Choice, Settings
from streams.mesh.settings.brokers import CommonBrokers
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import NodeSettings

PARTS: dict[str, type[Settings]] = {
    "mesh": MeshSettings,
    "brokers": CommonBrokers,
    "a node's own part": NodeSettings,
    "mesh of a collaboration": CollaborationSettings,
    "an owner's own part": OwnerSettings,
}
_Schema = Mapping[str, Any]


def region() -> str:
    """Return a section for each kind of settings, those of the file's parts first."""
    titles, schemas, classes = _titled()
    return "\n\n".join(_section(titles, classes[name], schemas[name]) for name in titles)


def starter() -> str:
    """Return the commented file that `mirrormesh init --commented` writes."""
    text = resources.files(streams.mesh).joinpath("starter.yaml").read_text()
    return f"```yaml\n{text.strip()}\n```"


def _titled() -> tuple[dict[str, str], dict[str, _Schema], dict[str, type[Settings]]]:
    """Return the title of each kind, those of the file's parts first, with its schema and its class."""
    schemas, classes = _gathered()
    titles = {kind.__name__: title for title, kind in PARTS.items()}
    others = {name: _title(name) for name in set(schemas) - set(titles)}
    others |= {"BrokersSettings": "brokers of a node", "OwnerBrokersSettings": "brokers of an owner"}
    return titles | dict(sorted(others.items(), key=itemgetter(1))), schemas, classes


def _gathered() -> tuple[dict[str, _Schema], dict[str, type[Settings]]]:
    """Return the schema and the class of everything that the parts are made of, by name."""
    found: dict[str, _Schema] = {}
    for kind in PARTS.values():
        schema = kind.model_json_schema()
        found |= schema.pop("$defs", {})
        found[kind.__name__] = schema
    return found, {kind.__name__: kind for kind in _kinds(Settings)}


def _title(name: str) -> str:
    """Return a heading: `StepSizeSettings` is "step size"."""
    words = re.findall(r"[A-Z][a-z]+", name.removesuffix("Settings"))
    return " ".join(words).lower()


def _kinds(kind: type[Settings]) -> Iterator[type[Settings]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)


def _section(titles: Mapping[str, str], kind: type[Settings], schema: _Schema) -> str:
    rows = list(_keys(titles, kind, schema))
    said = (inspect.getdoc(kind) or "").replace("|", r"\|")
    if issubclass(kind, Choice):
        table = ["| one of | value | meaning |", "|---|---|---|"]
        table += [
            f"| `{row.key}` | {row.value} | {row.meaning} |" for row in rows if row.key not in kind.beside
        ]
        beside = [row for row in rows if row.key in kind.beside]
        if beside:
            table += ["", "Beside it may stand:", "", "| key | value | meaning |", "|---|---|---|"]
            table += [f"| `{row.key}` | {row.value} | {row.meaning} |" for row in beside]
    else:
        table = ["| key | value | default | meaning |", "|---|---|---|---|"]
        table += [f"| `{row.key}` | {row.value} | {row.default} | {row.meaning} |" for row in rows]
    return f"### {titles[kind.__name__]}\n\n{said}\n\n" + "\n".join(table)


class Row(NamedTuple):
    """What the reference says of a key; of an alternative `default` says nothing."""

    key: str
    value: str
    default: str
    meaning: str


def rows() -> Iterator[tuple[type[Settings], Row]]:
    """Yield every key of every kind of settings."""
    titles, schemas, classes = _titled()
    for name in titles:
        yield from ((classes[name], row) for row in _keys(titles, classes[name], schemas[name]))


def _keys(titles: Mapping[str, str], kind: type[Settings], schema: _Schema) -> Iterator[Row]:
    fields = {field.alias or name: (name, field) for name, field in kind.model_fields.items()}
    words = kind.words if issubclass(kind, Choice) else ()
    meanings = _meanings(kind)
    for key, allowed in schema.get("properties", {}).items():
        name, field = fields[key]
        shown = "alone" if key in words else value(titles, allowed, field)
        default = "" if issubclass(kind, Choice) else _default(field)
        yield Row(key, shown, default, meanings.get(name, "").replace("|", r"\|"))


def _meanings(kind: type[Settings]) -> dict[str, str]:
    """Return the text below each key in the class, or in the class that it has the key from."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if issubclass(one, Settings):
            (made,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
            for field, below in pairwise(getattr(made, "body", ())):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        found[name] = " ".join(text.split())
    return found


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "`none`" if takes_none(field) else "not given"
    if isinstance(value, Choice):
        return f"`{value.name}`"
    if isinstance(value, Settings):
        return "`{}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
