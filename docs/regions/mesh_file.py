"""Every key of a mesh file, from the settings' own types and docstrings."""

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from pydantic.fields import FieldInfo

import streams.mesh
from streams.mesh.settings.base import Choice, Settings, or_none
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import CommonBrokers, NodeSettings

PARTS: dict[str, type[Settings]] = {
    "mesh": MeshSettings,
    "brokers": CommonBrokers,
    "a node's own part": NodeSettings,
}
_Schema = Mapping[str, Any]


def region() -> str:
    """Return a section for each kind of settings, those of the file's parts first."""
    schemas, classes = _gathered()
    titles = {kind.__name__: title for title, kind in PARTS.items()}
    titles["BrokersSettings"] = "brokers of a node"
    titles |= {name: titles.get(name, _title(name)) for name in schemas}
    order = [kind.__name__ for kind in PARTS.values()]
    order += sorted(set(schemas) - set(order), key=titles.__getitem__)
    return "\n\n".join(_section(titles, classes[name], schemas[name]) for name in order)


def starter() -> str:
    """Return the commented file that `mirrormesh init` writes."""
    text = resources.files(streams.mesh).joinpath("starter.yaml").read_text()
    return f"```yaml\n{text.strip()}\n```"


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
    said = (inspect.getdoc(kind) or "").replace("|", r"\|")
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    words = kind.words if issubclass(kind, Choice) else ()
    rows = ["| key | value | default |", "|---|---|---|"]
    for key, value in schema.get("properties", {}).items():
        default = "" if words or issubclass(kind, Choice) else _default(fields[key])
        shown = "alone" if key in words else _value(titles, value, fields[key])
        rows.append(f"| `{key}` | {shown} | {default} |")
    one = "One of these.\n\n" if issubclass(kind, Choice) else ""
    return f"### {titles[kind.__name__]}\n\n{said}\n\n{one}" + "\n".join(rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "`none`" if _takes_none(field) else ""
    if isinstance(value, Choice):
        return f"`{value.name}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if isinstance(value, str | int | float) else ""


def _takes_none(field: FieldInfo) -> bool:
    return any(getattr(one, "func", None) is or_none for one in field.metadata)


def _value(titles: Mapping[str, str], schema: _Schema, field: FieldInfo) -> str:
    said = _said(titles, schema)
    return f"{said}; or `none`" if _takes_none(field) else said


def _said(titles: Mapping[str, str], schema: _Schema) -> str:  # a table
    options = schema.get("anyOf", schema.get("oneOf"))
    if options is not None:
        said = [_said(titles, one) for one in options if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(said))
    if "$ref" in schema:
        title = titles[schema["$ref"].rpartition("/")[2]]
        return f"[{title}](#{title.replace(' ', '-').replace(chr(39), '')})"
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    match schema.get("type"):
        case "array":
            return _list(titles, schema)
        case "object":
            (named,) = schema.get("patternProperties", {"": schema.get("additionalProperties", {})}).values()
            return f"a mapping from names to {_said(titles, named)}"
        case "boolean":
            return "true or false"
        case "integer" | "number":
            return _number(schema)
        case "string":
            return "a name of a-z, 0-9 and -" if "pattern" in schema else "text"
    return "a positive number, kept exactly"


def _list(titles: Mapping[str, str], schema: _Schema) -> str:
    parts = schema.get("prefixItems")
    if parts is None:
        item = _said(titles, schema.get("items", {}))
        return "a list of " + re.sub("^a (list|(?:whole )?number)", r"\1s", item)
    if [part["type"] for part in parts] == ["string", "integer"]:
        return "a port, or `address:port`"
    return f"[{', '.join(_said(titles, one) for one in parts)}]"


def _number(schema: _Schema) -> str:
    what = "a whole number" if schema["type"] == "integer" else "a number"
    limits = {
        "exclusiveMinimum": "above",
        "minimum": "of at least",
        "exclusiveMaximum": "below",
        "maximum": "of at most",
    }
    said = [f"{words} {schema[key]:,}" for key, words in limits.items() if key in schema]
    return " ".join([what, " and ".join(said)]).strip()
