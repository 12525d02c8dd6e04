"""What pages show runs: Python, mesh files, and every command that ends by itself."""

import re

import pytest

from tests.support.page_blocks import (
    LEFT_OUT,
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
from tests.support.pages import PAGES, ROOT, name

SLOW = {"models", "tune", "choose-a-mechanism"}
TUTORIAL = ROOT / "docs" / "tutorial.md"


def blocks(page):
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


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
    assert {line for line in shown if line not in LEFT_OUT} == run - set(LEFT_OUT)
    assert set(LEFT_OUT) <= set(shown)
    named = re.findall(r"tests/[\w/]+\.py", " ".join(LEFT_OUT.values()))
    assert [test for test in named if not (ROOT / test).exists()] == []
    assert all(reason.endswith(".") for reason in LEFT_OUT.values())


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
