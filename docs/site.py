"""Builds the documentation as a website, with links that lead somewhere: `python -m docs.site [FOLDER]`.

The pages lie where they lie in the repository, so that their links are the same in both. The menu is what
docs/README.md lists. A link that leads nowhere fails.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "out" / "site"
INDEX = ROOT / "docs" / "README.md"
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)")
_PAGE = re.compile(r"\[([^\]]+)\]\(([^)]+\.md)\)")


def pages() -> list[Path]:
    """Return every page that the site has."""
    below = (path for name in ("docs", "deploy", "experiments") for path in (ROOT / name).rglob("*.md"))
    return [*(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING")), *sorted(below)]


def stage(folder: Path) -> None:
    """Copy the pages, and the files that they link to, into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages():
        linked = ((page.parent / target).resolve() for target in _LINK.findall(page.read_text("utf-8")))
        for path in {page, *linked}:
            if path.is_file():
                copy = folder / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)


def menu() -> list[dict[str, object]]:
    """Return what docs/README.md lists, a section for each of its headings."""
    entries: list[dict[str, object]] = [{"mirrormesh": "README.md"}]
    for section in INDEX.read_text("utf-8").split("\n## ")[1:]:
        linked = [
            {title: str((INDEX.parent / target).resolve().relative_to(ROOT))}
            for title, target in _PAGE.findall(section)
        ]
        entries.append({section.partition("\n")[0]: linked})
    return entries


def settings(source: Path, target: Path) -> str:
    """Return Zensical's settings."""
    entries = ", ".join(_toml(entry) for entry in menu())
    return f"""[project]
site_name = "mirrormesh"
site_description = "Private, decentralised online learning on streams"
docs_dir = {json.dumps(str(source))}
site_dir = {json.dumps(str(target))}
nav = [{entries}]
use_directory_urls = false
"""


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return json.dumps(value)


def render(folder: Path) -> None:
    """Render `folder`/pages into `folder`/html. A link that leads nowhere raises CalledProcessError."""
    (folder / "zensical.toml").write_text(settings(Path("pages"), Path("html")))
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603 # arguments of our own


def main() -> None:
    """Build the site in the folder that is named, or else in out/site."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else FOLDER
    stage(folder / "pages")
    render(folder)


if __name__ == "__main__":
    main()
