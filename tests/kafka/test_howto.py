"""Commands of the how-tos that need a broker with users, each as it stands on its page."""

import gzip
import re
import subprocess

import pytest

from tests.support.published.page_blocks import ON_USERS, Shell, lines, run_blocks, typed_here
from tests.support.published.pages import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGES = [
    ROOT / "docs" / "howto" / f"{name}.md"
    for name in ("three-institutions", "secure-broker", "kafka", "join-and-leave")
]
SERVERS = re.compile(r"kafka\.[\w-]+\.example:9093")
FOLDERS = {
    "passwords": {"north", "south", "fraud-scheduler", "fraud-auditor"},
    "data-passwords": {"bank-a", "east-feeder"},
}
RECORDS = "12.5,23,de,0\n900,3,fr,1\n4,11,it,0\n"


@pytest.fixture
def reader(tmp_path, secure_broker, monkeypatch):
    """A reader with that broker, its administrator's password, and records of one node."""
    monkeypatch.chdir(tmp_path)
    admin = {"USER": "admin", "PASSWORD": secure_broker.password_file.read_text().strip()}
    for key, value in admin.items():
        monkeypatch.setenv(f"MESH_{key}", value)
        monkeypatch.setenv(f"DATA_{key}", value)
    (tmp_path / "records.csv.gz").write_bytes(gzip.compress(RECORDS.encode()))
    return Reader(tmp_path, secure_broker.address, monkeypatch)


class Reader:
    """Types the lines of pages, each once; `ran` are those."""

    def __init__(self, folder, address, monkeypatch):
        self._folder, self._address, self._monkeypatch = folder, address, monkeypatch
        self.ran = []

    def read(self, page):
        """Read a page, which may make someone else of the reader for as long as he reads it."""
        with self._monkeypatch.context() as context:
            typed = Shell(
                lambda line: line not in ON_USERS or line in self.ran, lambda words: self._run(words, context)
            )

            def block(text):
                typed(text)
                self.ran += [line for line in lines(text) if line in ON_USERS and line not in self.ran]

            run_blocks(page, self._folder, block, self._edit)

    def _run(self, words, context):
        if words[0] != "export":
            typed_here(words)
            return
        asked = f"export {' '.join(words[1:])}; env --null"
        found = subprocess.run(["bash", "-ec", asked], capture_output=True, text=True, check=True).stdout
        variables = dict(one.split("=", 1) for one in found.split("\0") if one)
        for name in (word.partition("=")[0] for word in words[1:]):
            context.setenv(name, variables[name])

    def _edit(self, text):
        """One broker without TLS stands for all; who provisions is its administrator."""
        text = SERVERS.sub(self._address, text).replace("sasl-tls", "sasl")
        text = re.sub("username: (fraud-scheduler|bank-a)", "username: admin", text)
        return f"{text}  trust_broker: true\n" if text.startswith("# east.yaml") else text


def test_each_does_what_its_page_says(reader, tmp_path, capsys):
    said = {}
    for page in PAGES:
        reader.read(page)
        said[page.stem] = capsys.readouterr().out
    assert sorted(reader.ran) == sorted(ON_USERS)
    assert "3 records" in said["three-institutions"]
    assert "made the user east-feeder (feeder of east)" in said["three-institutions"]
    assert "made the user fraud-scheduler (scheduler)" in said["secure-broker"]
    assert said["secure-broker"].endswith("right: nothing is missing or too much\n")
    names = {name: {path.name for path in (tmp_path / name).iterdir()} for name in FOLDERS}
    known = {"bank-a"}  # on a broker that tests share, another one may have made that user
    assert {name: found | known for name, found in names.items()} == {
        name: found | known for name, found in FOLDERS.items()
    }
