"""What pages show runs: Python, mesh files, and every command that ends by itself."""

import re

import pytest

from tests.support.published.page_blocks import (
    LEFT_OUT,
    ON_USERS,
    Shell,
    check_command,
    commands,
    ends_by_itself,
    found_command,
    is_for_kafka,
    lines,
    run_blocks,
    typed_here,
)
from tests.support.published.pages import PAGES, ROOT, name

SLOW = {"models", "tune", "operate"}
TUTORIAL = ROOT / "docs" / "tutorial.md"
WALKS = {"test_tutorial": TUTORIAL, "test_topic_to_scores": ROOT / "docs" / "topic-to-scores.md"}
"""The pages whose commands a test types, by the test's name."""


def blocks(page):
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


OURS = {line: reason for line, reason in LEFT_OUT.items() if line.startswith("mirrormesh ")}


def is_left_out(line):
    return not ends_by_itself(line) or line in LEFT_OUT


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name(page), marks=[pytest.mark.slow] if page.stem in SLOW else [])
        for page in PAGES
    ],
)
def test_a_page_does_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    run_blocks(page, tmp_path, Shell(is_left_out, typed_here))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_command_in_a_sentence_is_there_with_its_options(page):
    for span in re.findall(
        r"`(mirrormesh [^`]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    ):
        (words,) = commands(span.replace("...", ""))
        command, rest = found_command(words[1:])
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {word for word in rest if word.startswith("--")} <= known, span


def test_what_is_not_run_stands_on_a_page_and_has_a_reason():
    shown = {line: page for page in PAGES for block in blocks(page) for line in lines(block)}
    run = {line for line, page in shown.items() if ends_by_itself(line)}
    run |= {line for line in shown if is_for_kafka(line) and line in tutorial()}
    run |= set(ON_USERS)
    assert not set(ON_USERS) & set(LEFT_OUT)
    assert set(ON_USERS) <= set(shown)
    assert {line for line in shown if line not in LEFT_OUT} == run - set(LEFT_OUT)
    assert set(LEFT_OUT) <= set(shown)
    named = re.findall(r"tests/[\w/]+\.py", " ".join(LEFT_OUT.values()))
    assert [test for test in named if not (ROOT / test).exists()] == []
    assert all(reason.endswith(".") for reason in LEFT_OUT.values())


@pytest.mark.parametrize(("line", "reason"), OURS.items(), ids=OURS)
def test_a_command_of_ours_that_is_not_run_is_in_a_test_with_all_its_options(line, reason):
    for words in commands(line):
        named = [word for word in words[1:3] if word in {*NAMES, *words[1:2]}]
        needed = [*named, *(word for word in words if word.startswith("--"))]
        tests = re.findall(r"tests/[\w/]+\.py", reason)
        texts = [text_of(ROOT / test) for test in tests]
        assert [text for text in texts if all(re.search(rf'["\s]{word}["\s=]', text) for word in needed)], (
            needed
        )


NAMES = {"start", "stop", "certificate", "releases"}
"""The second words of our commands that stand on pages."""


def text_of(test):
    """The text of a test, of what it is supported by, and of the page that it runs."""
    text = test.read_text()
    for module in re.findall(r"^from (tests\.support\.[\w.]+) import", text, re.MULTILINE):
        if module != "tests.support.published.page_blocks":  # which has all these lines
            text += (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
    return text + (WALKS[test.stem].read_text() if test.stem in WALKS else "")


def tutorial():
    return {line for block in blocks(TUTORIAL) for line in lines(block)}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mirrormesh fly", "no command fly"),
        ("mirrormesh run", "mesh"),
        ("mirrormesh plan a.yaml --wrong", "--wrong"),
        ("make nothing", "nothing"),
        ("python -m docs.nothing", "docs.nothing"),
    ],
)
def test_a_wrong_command_is_found(line, said):
    with pytest.raises(Exception) as refused:  # noqa: PT011 # click's own, or an assertion
        check_command(line.split())
    assert said in f"{refused.value!s}{vars(refused.value)}"
