"""The documentation as a website: every page is on it, in its menu, and a link that leads nowhere fails."""

import re
import subprocess

import pytest

from docs import site
from tests.support.published.pages import PAGES, ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    site.stage(folder / "pages")
    return folder


def test_every_page_and_picture_is_on_the_site(folder):
    site.render(folder)
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        path = page.relative_to(ROOT)
        name = "index" if path.stem == "README" else path.stem
        assert (folder / "html" / path.parent / f"{name}.html").is_file(), path
    picture = "experiments/results/demo/paths.png"
    assert (folder / "html" / picture).read_bytes() == (ROOT / picture).read_bytes()
    assert f'src="{picture}"' in (folder / "html" / "index.html").read_text()


def test_the_menu_holds_every_page_of_the_documentation():
    listed = [
        target
        for section in site.menu()[1:]
        for pages in section.values()
        for page in pages
        for target in page.values()
    ]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page.name != "README.md":
            assert str(page.relative_to(ROOT)) in listed
    assert all((ROOT / target).is_file() for target in listed)


def test_a_link_that_leads_nowhere_fails(folder, capfd):
    tutorial = folder / "pages" / "docs" / "tutorial.md"
    text = tutorial.read_text()
    for link in ("howto/nowhere.md", "howto/kafka.md#nowhere"):
        tutorial.write_text(f"{text}\n[a page]({link})\n")
        with pytest.raises(subprocess.CalledProcessError):
            site.render(folder)
        assert "1 issue found" in re.sub(r"\x1b\[[0-9;]*m", "", "".join(capfd.readouterr()))
    tutorial.write_text(text)
