"""Pages are readable, and links lead somewhere."""

import re

import pytest

from docs.generate import REGIONS, generated
from tests.support.published.pages import DOCS, PAGES, README, ROOT, anchors, links, name, prose

WIDTH = 100
every_page = pytest.mark.parametrize("page", PAGES, ids=name)


@every_page
def test_a_line_has_at_most_100_columns_but_for_tables_links_and_code(page):
    shown = [re.sub(r"\]\([^)]*\)", "]", line) for line in prose(page.read_text()).splitlines()]
    assert [line for line in shown if len(line) > WIDTH and not line.startswith("|")] == []


@every_page
def test_a_link_leads_to_a_file_and_a_heading_that_are_there(page):
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target.read_text()), link


@every_page
def test_no_two_headings_of_a_page_have_one_anchor(page):
    found = anchors(page.read_text())
    assert len(found) == len(set(found)), [anchor for anchor in found if found.count(anchor) > 1]


def test_every_page_of_the_documentation_can_be_reached_from_the_readme():
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text())]
            waiting += [target for target in targets if target.is_file()]
    assert [name(page) for page in DOCS if page not in reached] == []


@pytest.mark.parametrize("page", DOCS, ids=name)
def test_a_generated_part_is_as_the_code_says(page):
    text = page.read_text()
    assert generated(text) == text, "out of date: python -m docs.generate"


def test_every_generated_part_stands_on_a_page():
    written = "".join(page.read_text() for page in DOCS)
    assert [part for part in REGIONS if f"<!-- generated: {part} -->" not in written] == []
    assert set(re.findall(r"<!-- generated: ([\w ]+) -->", written)) <= set(REGIONS)
