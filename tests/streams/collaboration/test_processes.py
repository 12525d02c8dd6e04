"""An owner's process, before it reaches a broker."""

import pytest

from streams.collaboration.file import load_collaboration
from streams.collaboration.processes import OwnerProcess, PartyOptions
from streams.mesh.errors import MeshFileError
from streams.runtime.process import Stop
from tests.support.collaborations.files import collaboration_file


def test_a_set_of_another_size_is_refused_before_a_journal_is_made_that_a_mended_file_would_not_fit(tmp_path):
    path, state = collaboration_file(tmp_path, "127.0.0.1:1"), tmp_path / "state"
    path.write_text(path.read_text().replace("records: 60", "records: 61"))
    process = OwnerProcess(load_collaboration(path), ["bank-a"], PartyOptions(state))
    with pytest.raises(MeshFileError, match=r"mesh\.owners\.bank-a\.records: 61: the set holds 60 of them"):
        process.run(Stop())
    assert not state.exists()
