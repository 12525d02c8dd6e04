"""What writes files names the one that a full disk refuses."""

import resource
from contextlib import contextmanager

import pytest

from streams.mesh.errors import naming
from streams.state.folder import write_private
from streams.tools.broker.folder import write_secret


@contextmanager
def full():
    """A process that may write 10 bytes of a file, and then gets an error without a name."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


TEXT = "more than a full disk takes" * 1_000


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_secret(path, TEXT),
        lambda path: write_private(path, lambda _: TEXT),
    ],
)
def test_the_file_is_named(tmp_path, write):
    with full(), pytest.raises(OSError, match="File too large") as failed:
        write(tmp_path / "file")
    assert failed.value.filename == str(tmp_path / "file")


def refused_by_a_disk():
    raise OSError(28, "No space left on device")


def test_the_nearest_file_is_named(tmp_path):
    with pytest.raises(OSError, match="No space left") as failed, naming(tmp_path), naming(tmp_path / "near"):
        refused_by_a_disk()
    assert failed.value.filename == str(tmp_path / "near")
