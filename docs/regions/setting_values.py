"""What a key of a mesh file takes, in words, from its type's JSON schema."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from streams.mesh.settings.base import or_none

_Schema = Mapping[str, Any]


def takes_none(field: FieldInfo) -> bool:
    """Return whether the word `none` may be written there."""
    return any(getattr(one, "func", None) is or_none for one in field.metadata)


def value(titles: Mapping[str, str], schema: _Schema, field: FieldInfo) -> str:
    """Return what the key takes; `titles` are those of the sections on other kinds of settings."""
    said = _said(titles, schema)
    return f"{said}; or `none`" if takes_none(field) else said


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
