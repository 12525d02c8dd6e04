"""Only `StateFolder` knows how the files in a state folder are named."""

import ast
from pathlib import Path

import pytest

import streams
from streams.state.folder import StateFolder

ROOT = Path(streams.__file__).parent
THEIRS = {
    "state/folder.py",
    "tools/broker/folder.py",  # a broker's own folder
    "tools/broker/java.py",  # Kafka, downloaded
}
ENDINGS = (".journal", ".spends", ".lock", "-wal")
NAMES = {"order.json", "up.lock"}


def names_held(source: str) -> list[str]:
    """Return the parts of a module that name a file in a state folder; docstrings may."""
    tree = ast.parse(source)
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    held = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            words = node.value.split()
            if any(word.strip("\"',;:").endswith(ENDINGS) or word in NAMES for word in words):
                held.append(ast.unparse(node))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_state(node.left):
            held.append(ast.unparse(node))
    return held


def _is_state(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2].strip("_") == "state"


@pytest.mark.parametrize(
    "source",
    [
        "path = state / 'faust'",
        "path = self._options.state / name",
        "path = folder / f'{node}.journal'",
        "for path in folder.glob(f'{node}.*.journal'): pass",
        "lock = path.with_suffix('.lock')",
        "fact('state', f'{place}: <node>.journal, and logs')",
    ],
)
def test_a_name_is_seen(source):
    assert names_held(source)


@pytest.mark.parametrize(
    "source", ["'''It is in `<node>.journal`.'''", "node.journal.close()", "topics.spends"]
)
def test_other_words_are_not(source):
    assert names_held(source) == []


def test_no_other_module_names_a_file_of_a_state_folder():
    modules = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))}
    assert set(modules) >= THEIRS
    held = {name: names_held(path.read_text()) for name, path in modules.items() if name not in THEIRS}
    assert {name: names for name, names in held.items() if names} == {}


def test_names_with_a_common_prefix_share_no_file(tmp_path):
    folder = StateFolder(tmp_path)
    for node in ("n1", "n10", "n1-0"):
        folder.journal(node).touch()
        folder.place_aside(node, "old").touch()
        folder.place_aside(node, "old").touch()
    files = {node: [path.name for path in folder.journals(node)] for node in ("n1", "n10", "n", "n1-0")}
    assert files["n1"] == ["n1.old.2.journal", "n1.old.journal", "n1.journal"]
    assert files["n10"] == ["n10.old.2.journal", "n10.old.journal", "n10.journal"]
    assert len(files["n1-0"]) == 3
    assert files["n"] == []
