"""What the pages name is there: files, modules, classes, functions and keys of the mesh file."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest
from pydantic import BaseModel

from streams.mesh.settings.brokers import CommonBrokers
from streams.mesh.settings.mesh import MeshSettings
from tests.support.published.pages import DOCS, PAGES, ROOT, name, prose

PACKAGES = ("topology", "nodes", "streams", "mirrormesh")
FOLDERS = (*PACKAGES, "tests", "experiments", "docs", "deploy", "grafana")
ENTRY_POINTS = {"mirrormesh.losses", "mirrormesh.sources"}
ABOUT_CODE = [page for page in DOCS if page.parent.name in {"explanation", "decisions"}]
SETTINGS: dict[str, type[BaseModel]] = {"mesh": MeshSettings, "brokers": CommonBrokers}
OTHERS = {"OpenDP"}
every_page = pytest.mark.parametrize("page", PAGES, ids=name)


def codes(page) -> set[str]:
    """Return what stands between single backticks."""
    return set(re.findall(r"`([^`\n]+)`", prose(page.read_text())))


def defined() -> Iterator[str]:
    """Yield the names of all classes, functions, methods and attributes of the product."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case (
                        ast.ClassDef(name=word) | ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word)
                    ):
                        yield word
                    case ast.Name(id=word, ctx=ast.Store()) | ast.arg(arg=word) | ast.Attribute(attr=word):
                        yield word


DEFINED = frozenset(defined())


@every_page
def test_a_file_named_with_its_folder_exists(page):
    named = {code for code in codes(page) if code.startswith(tuple(f"{folder}/" for folder in FOLDERS))}
    paths = {code for code in named if re.fullmatch(r"[\w./-]+", code)}
    assert [code for code in sorted(paths) if not (ROOT / code).exists()] == []


@every_page
def test_a_test_file_named_without_its_folder_exists(page):
    named = {code for code in codes(page) if re.fullmatch(r"test_\w+\.py", code)}
    assert [code for code in sorted(named) if not [*(ROOT / "tests").rglob(code)]] == []


@every_page
def test_a_dotted_name_can_be_imported(page):
    pattern = rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+"
    for code in codes(page) - ENTRY_POINTS:
        if re.fullmatch(pattern, code) and not code.endswith((".py", ".yaml", ".service")):
            module, _, attribute = code.rpartition(".")
            assert hasattr(import_module(module), attribute), code


@pytest.mark.parametrize("page", ABOUT_CODE, ids=name)
def test_a_class_or_function_on_a_page_about_the_code_is_defined(page):
    classes = {code for code in codes(page) if re.fullmatch(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*", code)}
    calls = {code.partition("(")[0] for code in codes(page) if re.fullmatch(r"[a-z_]+\(.*\)", code)}
    assert sorted((classes | calls) - DEFINED - OTHERS) == []


def test_every_name_on_the_page_for_whoever_writes_a_shell_is_defined():
    words = {code for code in codes(ROOT / "docs/explanation/write-a-shell.md") if code.isidentifier()}
    assert words
    assert sorted(words - DEFINED) == []


@every_page
def test_a_key_of_the_mesh_file_exists(page):
    keys = {code for code in codes(page) if re.fullmatch(r"(?:mesh|brokers)(?:\.[a-z_]+|\.<name>)+", code)}
    assert [key for key in sorted(keys) if not exists(key)] == []


def exists(key: str) -> bool:
    """Return whether the settings have the key, as deep as they are models without a choice of kinds."""
    first, *rest = key.split(".")
    model: type[BaseModel] | None = SETTINGS[first]
    for part in rest:
        if model is None or part == "<name>":
            return True
        if part not in model.model_fields:
            return False
        annotation = model.model_fields[part].annotation
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    return True
