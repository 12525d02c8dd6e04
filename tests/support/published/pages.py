"""The pages of the documentation, and what a reader finds on them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
RUNBOOKS = (ROOT / "deploy" / "prometheus" / "runbooks.md").read_text()
COMMANDS = sorted({tuple(line.split()) for line in re.findall(r"`mirrormesh ([^`]+)`", RUNBOOKS)})
"""The commands that the runbooks name, each in words; MESH and NODE stand for what the operator has."""
BESIDE = sorted(path for name in ("deploy", "experiments") for path in (ROOT / name).rglob("*.md"))
PAGES = [README, ROOT / "CONTRIBUTING.md", *DOCS, *BESIDE]
_FENCED = re.compile(r"^(```+).*?^\1 *$", re.DOTALL | re.MULTILINE)
_GENERATED = re.compile(r"<!-- generated: ([\w ]+) -->.*?<!-- end: \1 -->", re.DOTALL)


def name(page: Path) -> str:
    """Where a page stands, seen from the root."""
    return str(page.relative_to(ROOT))


def page(path: str) -> str:
    """The text of a page."""
    return (ROOT / path).read_text()


def joined(text: str) -> str:
    """The text without its line breaks, to look for sentences in."""
    return " ".join(text.split())


def prose(text: str) -> str:
    """The text without code blocks and generated parts."""
    return _FENCED.sub("", _GENERATED.sub("", text))


def anchors(text: str) -> list[str]:
    """What a link to a heading of the text ends with, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def links(text: str) -> list[str]:
    """The targets of relative links and pictures."""
    return re.findall(r"\]\((?!https?:)([^)\s]+)\)", _FENCED.sub("", text))
