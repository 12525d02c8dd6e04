"""Measures the structure of the tree, and holds what it has reached: `python -m tests.structure.measure`.

`make lint` runs it. Each figure has a bound in `bounds.toml` beside this file. A figure above its bound
fails. One below it fails too, so that its new value becomes the bound in the same commit. A bound rises only
with a reason in that commit's body. `--list` names the places that the figures count, `--figures` prints all
figures.
"""

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("topology", "nodes", "streams", "mirrormesh")
BOUNDS = Path(__file__).with_name("bounds.toml")

BARE = frozenset(tomllib.loads(BOUNDS.read_text())["bare"].split())
"""Participles, pronouns and adverbs: they do not say what a value is."""

LONGEST = 600
"""No file has more lines."""


@dataclass(frozen=True)
class Module:
    """A product file: its dotted name, its path from the root, its text and syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        """The package that it lies in."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def modules(root: Path = ROOT) -> dict[str, Module]:
    """Return the product's modules by their names."""
    parsed = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text()
            parsed[name] = Module(name, path.relative_to(root), text, ast.parse(text))
    return parsed


def local_names(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Yield (function, line, name) for each local variable of each function, once a function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            seen = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
            for name, line in _bound(function):
                if name not in seen:
                    seen.add(name)
                    yield function.name, line, name


def _bound(function: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names that a function binds in its own body, with their lines, comprehensions included."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, node.lineno
        yield from _bound(node)


def bare_locals(tree: dict[str, Module]) -> list[str]:
    """Return the places of local variables whose names are bare participles, pronouns or adverbs."""
    return [
        f"{module.path}:{line}: {name}"
        for module in tree.values()
        for _, line, name in local_names(module.tree)
        if name in BARE
    ]


def shared_class_names(tree: dict[str, Module]) -> list[str]:
    """Return the public class names that are defined in more than one file, with the files."""
    places = defaultdict(list)
    for module in tree.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module.path))
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]


def importers(tree: dict[str, Module]) -> dict[str, set[str]]:
    """Return by which modules each module is imported."""
    by = defaultdict(set)
    for module in tree.values():
        for imported in _imports(module, tree):
            by[imported].add(module.name)
    return by


def _by_name(module: Module, tree: dict[str, Module]) -> set[str]:
    """Return the modules that one loads by a text: "a.b:function", or a name in a folder of commands."""
    texts = {
        node.value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    names = {text.partition(":")[0] for text in texts if ":" in text}
    if "import_module" in module.text:
        names |= {f"{module.folder}.{text}" for text in texts}
    return {name for name in names if name in tree and name != module.name}


def _imports(module: Module, tree: dict[str, Module]) -> set[str]:
    names = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {name for name in names if name in tree and name != module.name}


def lone_files(tree: dict[str, Module]) -> list[str]:
    """Return the files that only one file of their own folder imports: they belong to it.

    A file that is loaded by its name, as commands are, is a part of its own.
    """
    lone, by_name = [], set[str]().union(*(_by_name(module, tree) for module in tree.values()))
    for name, by in sorted(importers(tree).items()):
        module = tree[name]
        if module.path.name != "__init__.py" and len(by) == 1 and name not in by_name:
            (importer,) = by
            if tree[importer].folder == module.folder:
                lone.append(f"{module.path}: only {tree[importer].path} imports it")
    return lone


def short_files(tree: dict[str, Module]) -> list[str]:
    """Return the files below 100 lines, packages' empty fronts left out."""
    return [
        f"{module.path}: {lines} lines"
        for module in tree.values()
        if module.path.name != "__init__.py" and (lines := module.text.count("\n")) < 100
    ]


def kind_branches(tree: dict[str, Module]) -> list[str]:
    """Return the places that ask which kind of mesh file, shared part or export they have."""
    kinds = {f"{kind}{part}" for kind in ("Mesh", "Collaboration") for part in ("File", "Settings", "Stage")}
    kinds |= {"Mesh", "Collaboration", "RawMesh", "RawCollaboration", "NODES", "COLLABORATION"}
    places = []
    for module in tree.values():
        for node in ast.walk(module.tree):
            match node:
                case ast.Call(func=ast.Name("isinstance"), args=[_, asked]):
                    if kinds & {part.id for part in ast.walk(asked) if isinstance(part, ast.Name)}:
                        places.append(f"{module.path}:{node.lineno}")
                case ast.MatchClass(cls=ast.Name(name)) if name in kinds:
                    places.append(f"{module.path}:{node.lineno}")
                case ast.Compare(comparators=[ast.Name(name)]) if name in kinds:
                    places.append(f"{module.path}:{node.lineno}")
    return places


def long_files(tree: dict[str, Module]) -> list[str]:
    """Return the files of more than 600 lines."""
    return [
        f"{module.path}: {lines} lines"
        for module in tree.values()
        if (lines := module.text.count("\n")) > LONGEST
    ]


START = ("streams.cli.processes", "node")
"""Where a node's process starts."""


def start_files(tree: dict[str, Module], start: tuple[str, str] = START) -> list[str]:
    """Return the files that a node's start goes through, as far as names tell.

    From a function on it follows what the function names: functions and classes of its own file and those it
    imports by name. Of a class it follows the bases, the methods that start it, and what these name on
    `self`. It does not follow a method of another object.
    """
    seen, waiting = set(), [start]
    while waiting:
        place = waiting.pop()
        if place in seen or place[0] not in tree:
            continue
        seen.add(place)
        waiting += _named(tree, *place)
    return sorted({str(tree[module].path) for module, _ in seen})


def _named(tree: dict[str, Module], module: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of all functions and classes that one function or class names."""
    definitions, imported = _scope(tree, module)
    definition = definitions.get(name)
    if definition is None:
        if name in imported:  # a package's front, which passes it on
            yield imported[name]
        return
    body: list[ast.AST] = [definition]
    if isinstance(definition, ast.ClassDef):
        body = _reached_methods(definition)
    for part in body:
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and node.id in definitions and node.id != name:
                yield module, node.id
            elif isinstance(node, ast.Name) and node.id in imported:
                yield imported[node.id]


def _scope(tree: dict[str, Module], module: str) -> tuple[dict[str, ast.AST], dict[str, tuple[str, str]]]:
    definitions: dict[str, ast.AST] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree[module].tree):
        if isinstance(node, ast.ImportFrom) and node.module in tree:
            imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    for node in tree[module].tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions[node.name] = node
    return definitions, imported


def _reached_methods(definition: ast.ClassDef) -> list[ast.AST]:
    """Return a class's bases, the methods that start it, and its methods that these name on `self`."""
    methods = {
        node.name: node
        for node in definition.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    reached, waiting = set(), ["__init__", "__post_init__", "__enter__", "__aenter__", "run", "start"]
    while waiting:
        name = waiting.pop()
        if name in methods and name not in reached:
            reached.add(name)
            waiting += [
                node.attr
                for node in ast.walk(methods[name])
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ]
    return [*definition.bases, *(methods[name] for name in sorted(reached))]


def figures(tree: dict[str, Module]) -> dict[str, list[str]]:
    """Return the places that each bounded figure counts."""
    return {
        "bare local names": bare_locals(tree),
        "class names with two meanings": shared_class_names(tree),
        "files of more than 600 lines": long_files(tree),
        "files below 100 lines": short_files(tree),
        "files with one importer, in their own folder": lone_files(tree),
        "branches on a kind": kind_branches(tree),
        "files on the way of a node's start": start_files(tree),
        "files": [str(module.path) for module in tree.values()],
    }


def main() -> int:
    """Compare the figures with their bounds; print what is not at its bound. Return the exit code."""
    tree = modules()
    bounds: dict[str, int] = tomllib.loads(BOUNDS.read_text())["bounds"]
    measured = figures(tree)
    wrong = 0
    for name, places in measured.items():
        bound = bounds[name]
        if "--list" in sys.argv:
            print("\n".join(f"{name}: {place}" for place in places))
        if len(places) > bound:
            wrong = 1
            print(f"{name}: {len(places)}, above the bound {bound} (--list names them)")
        elif len(places) < bound:
            wrong = 1
            print(f"{name}: {len(places)}, below the bound {bound}: write it into {BOUNDS.relative_to(ROOT)}")
    if "--figures" in sys.argv:
        names = Counter(name in BARE for module in tree.values() for _, _, name in local_names(module.tree))
        print(*(f"{name} = {len(places)}" for name, places in measured.items()), sep="\n")
        print(f"bare local names: {names[True] / names.total():.1%} of {names.total():,}")
        print(f"lines: {sum(module.text.count(chr(10)) for module in tree.values()):,}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
