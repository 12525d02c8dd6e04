"""The units of systemd: it takes them, finds them closed enough, and what they name is there."""

import re
import sys
from pathlib import Path

import pytest

from streams.mesh.settings.node import LIVENESS
from streams.tools.export.raw_mesh import FILES, SIDES, file_name
from tests.support.processes.in_process import Commands
from tests.support.processes.programs import systemd_analyze

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
NODE, SCHEDULER = "mirrormesh-node@.service", "mirrormesh-scheduler.service"
OWNER, LEARNER = "mirrormesh-owner@.service", "mirrormesh-learner@.service"
SCORE = "mirrormesh-score@.service"
FEED = "mirrormesh-feed@.service"
UNIT_NAMES = (NODE, SCHEDULER, OWNER, LEARNER, SCORE, FEED)
PROGRAM = "/opt/mirrormesh/bin/mirrormesh"
HIGHEST = 15
"""The exposure that `systemd-analyze security` may find, in tenths: of 100, and 96 without any of it."""


def settings(unit):
    """The settings of a unit: (name, value), some names several times."""
    return re.findall(r"^([A-Z]\w+)=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)


@pytest.fixture
def installed(tmp_path):
    """The units in a folder, as if the program were there."""
    for unit in UNITS.iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace(PROGRAM, sys.executable))
    return tmp_path


def test_systemd_takes_them_and_would_find_a_mistake(installed):
    for unit, name in ((unit, unit.replace("@", "@a")) for unit in UNIT_NAMES):
        assert systemd_analyze("verify", "--man=no", name, folder=installed) == (0, "")
        text = (installed / unit).read_text()
        (installed / unit).write_text(text.replace("ProtectClock", "ProtectClok"))
        assert "Unknown key" in systemd_analyze("verify", "--man=no", name, folder=installed)[1]


@pytest.mark.parametrize("unit", UNIT_NAMES)
def test_what_a_broken_process_could_reach_is_little(installed, unit):
    asked = ("security", "--offline=true", f"--threshold={HIGHEST}", "--no-pager", f"./{unit}")
    assert systemd_analyze(*asked, folder=installed)[0] == 0
    text = (installed / unit).read_text()
    (installed / unit).write_text(text.replace("CapabilityBoundingSet=\n", ""))
    assert systemd_analyze(*asked, folder=installed)[0] != 0


@pytest.mark.parametrize(
    ("unit", "command"),
    [(NODE, "node"), (SCHEDULER, "scheduler"), (OWNER, "owner"), (LEARNER, "learner"), (SCORE, "score")],
)
def test_the_command_has_the_options_that_it_is_given(capsys, unit, command):
    (words,) = [value.split() for name, value in settings(unit) if name == "ExecStart"]
    assert words[:2] == [PROGRAM, command]
    asked = Commands(capsys)(command, "--help")
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", asked.out))


def test_every_file_that_a_broker_s_settings_may_name_is_a_credential():
    shared = ("mesh",)
    whose = (
        (NODE, SIDES, "%i"),
        (SCHEDULER, shared, "scheduler"),
        (OWNER, SIDES, "%i"),
        (LEARNER, shared, "%i"),
        (SCORE, ("data",), "%i.score"),
    )
    for unit, sides, owner in whose:
        names = {file_name(side, key) for side in sides for key in FILES if key != "signing_key"}
        names |= {"mesh-signing-key"} if unit in {NODE, SCHEDULER} else set()  # who signs
        loaded = dict(value.split(":") for name, value in settings(unit) if name == "LoadCredential")
        assert loaded == {name: f"mirrormesh.{owner}.{name}" for name in names}


@pytest.mark.parametrize("unit", UNIT_NAMES)
def test_a_service_is_ready_when_it_says_so_and_watched_as_long_as_it_may_stand_still(unit):
    found = dict(settings(unit))
    assert (found["Type"], found["WatchdogSec"]) == ("notify", f"{LIVENESS:g}s")
    assert found["TimeoutStartSec"] == "infinity"  # a broker may be away for long
    ends = "2 3" if unit == FEED else "2"  # 3: all is fed
    assert (found["Restart"], found["RestartPreventExitStatus"]) == ("on-failure", ends)
    assert (found["DynamicUser"], found["ProtectSystem"], found["LimitCORE"]) == ("yes", "strict", "0")


@pytest.mark.parametrize("unit", [NODE, OWNER, LEARNER])
def test_a_process_with_a_journal_has_a_state_folder_of_its_own(unit):
    found = dict(settings(unit))
    assert (found["StateDirectory"], found["StateDirectoryMode"]) == ("mirrormesh/%i", "0700")
    assert "--state ${STATE_DIRECTORY}" in found["ExecStart"]


@pytest.mark.parametrize("unit", [NODE, OWNER])
def test_the_memory_of_a_process_with_records_is_written_nowhere(unit):
    found = dict(settings(unit))
    assert (found["LimitCORE"], found["MemorySwapMax"]) == ("0", "0")
