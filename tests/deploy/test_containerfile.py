"""deploy/Containerfile without building it: its linter, its rules, and which bases it is built on."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.programs import need
from tests.support.published.pages import ROOT

FILE = ROOT / "deploy" / "Containerfile"
TEXT = FILE.read_text()
ENGINE = """#!/bin/sh
printf "%s\\n" "$@"
for word in "$@"; do
  case $word in id=pip.conf,src=*) cat "${word#*src=}" ;; esac
done
"""
"""An engine that says what it was told, and what pip is told."""
BUILD = ROOT / "deploy" / "image" / "build.sh"
FIRST, THEN = ("bash", "dirname"), ("mktemp", "sed", "basename", "rm")
"""The programs that it needs before it looks at the base, and afterwards."""


def hadolint(path):
    done = subprocess.run(
        [Path(sys.executable).parent / "hadolint", path], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_its_linter_is_content_and_sees_mistakes(tmp_path):
    assert hadolint(FILE) == ""
    wrong = tmp_path / "Containerfile"
    wrong.write_text(TEXT.replace("WORKDIR /src", "WORKDIR src").replace("USER 10001:10001", "RUN sudo id"))
    assert {"DL3000", "DL3004"} <= set(re.findall(r"DL\d+", hadolint(wrong)))


def test_the_base_has_no_default_and_both_stages_are_built_on_it():
    assert re.findall(r"^ARG BASE.*$", TEXT, re.MULTILINE) == ["ARG BASE", "ARG BASE"]
    assert re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE) == ["${BASE}", "${BASE}"]


def test_it_names_no_host_and_installs_nothing_that_is_not_pinned():
    assert "://" not in TEXT
    assert "index" not in TEXT.replace("--no-index", "")
    assert "apt" not in TEXT
    assert "PIP_CONSTRAINT=/src/requirements.lock" in TEXT


def test_what_a_wheel_is_made_of_is_copied_and_not_ignored():
    copied = {
        word for line in re.findall(r"^COPY (?!--)(.*)$", TEXT, re.MULTILINE) for word in line.split()[:-1]
    }
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {word.split("/")[0] for word in copied} == kept
    packed = re.findall(
        r'^"((?:deploy|grafana)/\S+)" = ', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    for path in packed:
        assert any(path == one or path.startswith(f"{one}/") for one in copied), path


@pytest.mark.parametrize("base", ["", "python:3.13-slim", "python@sha256:12", "localhost"])
def test_a_base_without_a_digest_is_refused_before_anything_is_built(base, tmp_path):
    need(*FIRST)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [BUILD], env=os.environ | {"BASE": base, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"BASE is {base or 'not given'}: must name the base image by its digest")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("engine", ["buildah", "podman", "docker"])
def test_an_engine_is_told_the_base_the_versions_and_pip_s_settings_as_secrets(engine, tmp_path):
    need(*FIRST, *THEN)
    fake = tmp_path / engine
    fake.write_text(ENGINE)
    fake.chmod(0o755)
    base = "registry.example/python@sha256:" + "0" * 64
    environment = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "ENGINE": engine,
        "BASE": base,
        "PIP_INDEX_URL": "https://user:secret@packages.example/simple",
        "SOURCE_DATE_EPOCH": "1700000000",
    }
    done = subprocess.run([BUILD, "mine"], env=environment, capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()
    arguments = words[: words.index(".")]
    assert {f"BASE={base}", "VERSION=0.1.0", "EXTRAS=accounting,parquet,registry", "mine"} <= set(arguments)
    assert "1700000000" in " ".join(arguments)
    assert not [word for word in arguments if "packages.example" in word]
    assert "index-url = https://user:secret@packages.example/simple" in words
