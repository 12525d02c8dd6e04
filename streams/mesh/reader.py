"""Reads the parts of a mesh file and collects all mistakes before reporting them."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from streams.mesh.errors import MeshFileError, Problem, one_of, problems
from streams.mesh.settings.base import Settings
from streams.mesh.settings.files import read_small
from streams.mesh.settings.node import FileSettings, HeldOutSettings
from streams.mesh.settings.schema import SchemaSettings, SparseSettings
from streams.mesh.settings.yaml_file import read_yaml

S = TypeVar("S", bound=Settings)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the parts of one mesh file and collects every mistake. `secrets`: their files are here."""

    environment: Mapping[str, str]
    secrets: bool = True
    wrong: list[str] = field(default_factory=list)

    def attempt(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`, or None after mistakes."""
        try:
            return read()
        except MeshFileError as error:
            self.wrong.extend(error.lines)
            return None

    def note(self, problems: list[Problem]) -> None:
        """Add mistakes."""
        self.wrong.extend(problem.line for problem in problems)

    def parts(self, path: Path) -> dict[str, Any]:
        """Return the parts of the file: `nodes`, or `owners` of a collaboration, is a mapping.

        Missing others are None.
        """
        tree = read_yaml(path)
        if not isinstance(tree, dict) or "mesh" not in tree:
            raise MeshFileError([Problem(str(path), (), "must be a mapping with keys mesh and nodes").line])
        part = "owners" if _is_collaboration(tree["mesh"]) else "nodes"
        allowed = ("mesh", part, "brokers", "held_out")
        unknown = [key for key in tree if key not in allowed]
        self.note([Problem(str(path), (key,), f"unknown key: {one_of(allowed, key)}") for key in unknown])
        owns = tree.get(part)
        if not isinstance(owns, dict | None):
            self.note([Problem(str(path), (part,), "must be a mapping from names to own parts", owns)])
            owns = None
        return {key: tree.get(key) for key in allowed} | {part: owns or {}}

    def validated(self, kind: type[S], tree: object, file: Path, path: tuple[str, ...]) -> S:
        """Return the settings in `tree`, at `path` of the file. Raises MeshFileError."""
        return self.adapted(TypeAdapter(kind), tree, file, path)

    def adapted(self, kind: TypeAdapter[T], tree: object, file: Path, path: tuple[str, ...]) -> T:
        """Return what `kind` reads, as `validated` does."""
        context = {"folder": file.parent, "environment": self.environment, "secrets": self.secrets}
        try:
            return kind.validate_python(tree, context=context)
        except ValidationError as error:
            wrong = problems(str(file), path, tree, error)
        raise MeshFileError(problem.line for problem in wrong)

    def own(self, kind: type[S], tree: object, file: Path, path: tuple[str, ...]) -> S:
        """Return an own part, which may be in its own file. Raises MeshFileError."""
        if isinstance(tree, str):
            file, path = file.parent / tree, ()
            tree = read_yaml(file)
        if isinstance(tree, dict) and "source" in tree:
            tree = tree | {"source": self._with_schema(tree["source"], file, (*path, "source"))}
        return self.validated(kind, tree, file, path)

    def source(self, tree: object, file: Path) -> FileSettings | SparseSettings:
        """Return the held-out file's settings. Raises MeshFileError."""
        kind: TypeAdapter[FileSettings | SparseSettings] = TypeAdapter(HeldOutSettings)
        return self.adapted(kind, self._with_schema(tree, file, ("held_out",)), file, ("held_out",))

    def _with_schema(self, source: object, file: Path, path: tuple[str, ...]) -> object:
        """Return the source, at `path` of the file, with the path of a schema replaced by the schema."""
        if not isinstance(source, dict) or not isinstance(source.get("schema"), str):
            return source
        schema_file = Path(os.path.normpath(file.parent / source["schema"]))
        try:
            read_small(schema_file)
        except OSError as error:
            reason = f"cannot be read: {error.strerror or 'no such file'}: must be a YAML file, or a mapping"
            raise MeshFileError(
                [Problem(str(file), (*path, "schema"), reason, source["schema"]).line]
            ) from None
        return source | {"schema": self.validated(SchemaSettings, read_yaml(schema_file), schema_file, ())}


def _is_collaboration(mesh: object) -> bool:
    return isinstance(mesh, dict) and "kind" in mesh
