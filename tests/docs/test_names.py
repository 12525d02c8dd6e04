"""What the pages name is there: files, modules, classes, functions, arguments, keys of the mesh file."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module

import pytest
from pydantic import BaseModel

import streams.collaboration.settings
import streams.mesh.file
from streams.mesh.settings.brokers import CommonBrokers
from streams.mesh.settings.mesh import MeshSettings
from tests.support.published.alerts import ALERTS
from tests.support.published.pages import PAGES, ROOT, name, prose

PACKAGES = ("topology", "nodes", "streams", "mirrormesh")
FOLDERS = (*PACKAGES, "tests", "experiments", "docs", "deploy", "grafana")
ENTRY_POINTS = {"mirrormesh.losses", "mirrormesh.sources"}
SETTINGS: dict[str, type[BaseModel]] = {"mesh": MeshSettings, "brokers": CommonBrokers}
OTHERS = {
    *("StatefulSet", "ReadWriteOncePod", "OutOfMemoryError", "PYTHONPATH"),  # of Kubernetes, Java and Python
    *("LoadCredential", "LoadCredentialEncrypted", "WatchdogSec", "activating"),  # of systemd
    *("NA", "NaN", "None", "Int64"),  # of data frames
    *("MIRRORMESH_SECRETS", "MIRRORMESH_SETS", "DATA_USER"),  # a compose project's, a mesh file's variables
    *("SquaredNorm", "fast", "tools"),  # what once was, an extra, a folder of `streams`
    *("crc32", "fnlwgt"),  # of Python's zlib, and of the Adult data
    "secret_draws",  # a table of a journal
    "mirrormesh_broker_connected",  # metrics with their prefix
    "mirrormesh_run_over",
    *(alert for alert in ALERTS if any(f"`{alert}`" in page.read_text() for page in PAGES)),
    # a reader's own
    *("amount", "country", "customer", "island", "east", "rich", "emergency", "number_emergency", "no"),
    *("payment_id", "genuine"),
}
"""Names of others, and of a reader's own."""
EXAMPLES = {"bank-a", "ce_type"}
every_page = pytest.mark.parametrize("page", PAGES, ids=name)


def codes(page) -> set[str]:
    """Return what stands between single backticks."""
    return spoken(page.read_text())


def spoken(text: str) -> set[str]:
    """Return what stands between single backticks of a page's text."""
    return set(re.findall(r"`([^`\n]+)`", prose(text)))


def trees() -> Iterator[ast.AST]:
    """Yield all that stands in the product's modules."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            yield from ast.walk(ast.parse(path.read_text()))


def defined() -> Iterator[str]:
    """Yield the names of classes, functions, arguments and attributes, words that are values, examples."""
    yield from (
        path.stem for folder in ("deploy/meshes", "experiments") for path in (ROOT / folder).iterdir()
    )
    for node in trees():
        match node:
            case ast.ClassDef(name=word) | ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word):
                yield word
            case ast.Name(id=word, ctx=ast.Store()) | ast.arg(arg=word) | ast.Attribute(attr=word):
                yield word
            case ast.Constant(value=str() as word) if word.isidentifier():
                yield word  # a key, a kind, a metric
            case ast.keyword(arg=str() as word):
                yield word


def parameters() -> dict[str, set[str]]:
    """Return the arguments that functions and methods of each name take; those of a class are its own."""
    taken = defaultdict[str, set[str]](set)
    for node in trees():
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                arguments = node.args
                every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                taken[node.name].update(each.arg for each in every)
            case ast.ClassDef():
                fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
                taken[node.name].update(each.id for each in fields if isinstance(each, ast.Name))
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                        taken[node.name].update(
                            each.arg for each in (*method.args.args, *method.args.kwonlyargs)
                        )
    return dict(taken)


def settings(model: type[BaseModel] = BaseModel) -> Iterator[str]:
    """Yield the keys of all settings."""
    for kind in model.__subclasses__():
        for key, field in kind.model_fields.items():
            yield field.alias or key
        yield from settings(kind)


assert streams.mesh.file  # it imports all settings of meshes
assert streams.collaboration.settings  # and of collaborations
DEFINED = frozenset(defined())
PARAMETERS = parameters()
KEYS = frozenset(settings())


def unknown(words: Iterable[str]) -> list[str]:
    """Return what of these codes names no class, function, argument or key that is there."""
    wrong = set[str]()
    for code in words:
        if code.isidentifier():
            wrong |= {code} - DEFINED - OTHERS
        for key in re.findall(r"(?:^|[{,] *)([a-z_][\w-]*):(?: |$)", code):
            wrong |= {f"{key}:"} if key not in KEYS | OTHERS | EXAMPLES else set()
        for call in calls(code):
            function = (
                call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            )
            given = {each.arg for each in call.keywords if each.arg}
            wrong |= {f"{function}()"} if function not in PARAMETERS.keys() | OTHERS else set()
            wrong |= {f"{function}({each}=)" for each in given - PARAMETERS.get(function, set())}
    return sorted(wrong)


def calls(code: str) -> list[ast.Call]:
    """Return the calls of functions that a code is made of; none where it is no expression."""
    with suppress(SyntaxError):
        if re.match(r"[\w.]+\(", code):
            return [node for node in ast.walk(ast.parse(code, mode="eval")) if isinstance(node, ast.Call)]
    return []


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


@every_page
def test_a_class_a_function_an_argument_and_a_key_are_there(page):
    assert unknown(codes(page)) == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("NoSuchClass", ["NoSuchClass"]),
        ("no_such_key", ["no_such_key"]),
        ("no_such_key: 3", ["no_such_key:"]),
        ("slots: {by: count, sizes: 3}", ["sizes:"]),
        ("no_such_function(1)", ["no_such_function()"]),
        ('load("mesh.yaml", codes=[])', ["load(codes=)"]),
        ("slots: {by: count, size: 3}", []),
        ('load("mesh.yaml", code=[])', []),
    ],
)
def test_a_name_that_is_not_there_is_found(code, said):
    assert unknown(spoken(f"Set `{code}`.")) == said


def test_every_name_of_others_stands_on_a_page():
    named = {word for page in PAGES for code in codes(page) for word in re.findall(r"[\w-]+", code)}
    assert sorted((OTHERS | EXAMPLES) - named) == []


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
