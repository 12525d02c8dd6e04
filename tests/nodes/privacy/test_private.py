"""A private value shows nothing, and mypy keeps it out of a release."""

import copy
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nodes.privacy.owner import disclosed_to_owner
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened

ROOT = Path(__file__).parents[3]
SECRET = 271828182


@pytest.mark.parametrize("text", [repr, str, format, "{}".format, "%s".__mod__, lambda value: f"{value!r}"])
def test_no_text_shows_the_value(text) -> None:
    assert text(Private(SECRET)) == text(Private("something else")) == "Private(...)"
    assert text(Private(np.full(2, SECRET))) == "Private(...)"


@pytest.mark.parametrize(
    "look",
    [
        bool,
        hash,
        len,
        iter,
        float,
        lambda value: value == value,  # noqa: PLR0124 # what is refused
        lambda value: value != 0,
        lambda value: value < 0,
        lambda value: value in [0],  # noqa: FURB171 # what is refused
        lambda value: format(value, "d"),
        lambda value: value[0],
        json.dumps,
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        vars,
    ],
)
def test_nothing_public_can_look_compare_branch_or_write(look) -> None:
    with pytest.raises(TypeError) as caught:
        look(Private(SECRET))
    assert str(SECRET) not in str(caught.value)


def test_computing_stays_private_and_only_the_two_doors_open() -> None:
    doubled = Private(SECRET).map(lambda value: 2 * value)
    both = doubled.with_(Private(1), lambda one, two: one + two)
    assert isinstance(doubled, Private)
    assert opened(both) == disclosed_to_owner(both) == 2 * SECRET + 1


SNIPPET = """
import numpy as np

from nodes.privacy.mechanism import Mechanism, Update
from nodes.privacy.private import Private
from nodes.values import FloatArray, Release


def right(mechanism: Mechanism, gradients: Private[FloatArray], update: Update) -> Release:
    return mechanism.privatise(1, gradients, update).release


def wrong(mechanism: Mechanism, gradients: Private[FloatArray], update: Update) -> Release:
    raw = gradients.map(lambda rows: rows.sum(-2))
    Release(gradients)  # refused: arg-type
    Release(update(raw))  # refused: arg-type
    Release(raw.map(update))  # refused: arg-type
    raw + 1  # refused: operator
    raw[0]  # refused: index
    mechanism.privatise(1, raw, update).clipped + 1  # refused: operator
    mechanism.privatise(1, update(np.zeros(2)), update)  # refused: arg-type
    return raw.map(update)  # refused: return-value
"""


def test_mypy_refuses_a_release_made_from_a_raw_gradient(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"snippet\.py:(\d+): error: .*\[([a-z-]+)\]", found.stdout)
    lines = enumerate(SNIPPET.splitlines(), 1)
    refused = {(str(n), line.split("refused: ")[1]) for n, line in lines if "refused: " in line}
    assert set(errors) == refused, found.stdout + found.stderr
