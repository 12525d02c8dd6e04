"""Chooses the files of an export by kind and audience, names its images, and writes its folder."""

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.mesh.errors import UsageError, check_output
from streams.mesh.file import AnyFile
from streams.mesh.settings.parties import Party
from streams.tools.export.raw_mesh import Participant, RawCollaboration, RawMesh, participant, party, read_any

Files = dict[str, str]


def _nothing(raw: Any, whose: Any) -> Iterable[str]:
    del raw, whose
    return ()


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """What one format of export writes for each audience. Some formats write nothing for a collaboration's
    operator.

    `warnings` returns a line for each setting that is probably not intended.
    """

    party: Callable[[RawMesh, Party], Files]
    operator: Callable[[RawMesh], Files]
    participant: Callable[[RawCollaboration, Participant], Files]
    collaboration_operator: Callable[[RawCollaboration], Files] | None = None
    warnings: Callable[[RawMesh | RawCollaboration, Party | Participant | None], Iterable[str]] = _nothing


def files_for(
    mesh: Path,
    name: str | None,
    kind: ExportFormat,
    look: Callable[[AnyFile], object],
    *,
    mesh_operator: bool,
    code: Iterable[str] = (),
) -> tuple[Files, Iterable[str]]:
    """Return the files for the party `name`, or for the operator, and the warnings. `code` may run there.

    `look` is called with the mesh file as soon as it is read. Raises UsageError, MeshFileError.
    """
    if (name is None) != mesh_operator:
        mistake = "neither is given" if name is None else f"--party {name} and --mesh-operator are both given"
        raise UsageError(f"{mistake}: must be one of --party NAME and --mesh-operator")
    raw = read_any(mesh, code)
    look(raw.file)
    files_and_warnings: tuple[Files, Iterable[str]] = raw.file.kind.exported(raw, kind, name)
    return files_and_warnings


def nodes_files(raw: RawMesh, kind: ExportFormat, name: str | None) -> tuple[Files, Iterable[str]]:
    """Return the files for a party of a mesh, or for its operator, and the warnings."""
    if name is None:
        return kind.operator(raw), kind.warnings(raw, None)
    node_party = party(raw.file.mesh, name)
    return kind.party(raw, node_party), kind.warnings(raw, node_party)


def collaboration_files(
    raw: RawCollaboration, kind: ExportFormat, name: str | None
) -> tuple[Files, Iterable[str]]:
    """Return the files for a party of a collaboration, or for its operator, and the warnings."""
    if name is not None:
        member = participant(raw.file.mesh, name)
        return kind.participant(raw, member), kind.warnings(raw, member)
    if kind.collaboration_operator is None:
        allowed = "a collaboration has no scheduler: must be --party, with its learner or an owner"
        raise UsageError(f"--mesh-operator: {allowed}")
    return kind.collaboration_operator(raw), kind.warnings(raw, None)


# The image that an export's processes run in.

_IMAGE = re.compile(
    r"[a-z0-9][\w.\-]*(:\d+)?(/[a-z0-9][\w.\-]*)*(:\w[\w.\-]*)?(@sha256:[0-9a-f]{64})?", re.ASCII
)


def check_image(image: str) -> str | None:
    """Return a warning if the image has no digest. Raises UsageError if it is no image's name."""
    if _IMAGE.fullmatch(image) is None:
        raise UsageError(
            f"--image {image}: must be an image's name, as registry.example/mirrormesh@sha256:..."
        )
    if "@" in image:
        return None
    return f"--image {image} has no digest: what runs may change without you; name it with @sha256:..."


# Writes an export's folder: all of it, or nothing.

_FOLDER, _FILE = 0o755, 0o644
INDEX = "exported.txt"
"""The file with the names of all files of an export, so that a later export replaces nothing else."""


def write_folder(folder: Path, written: Mapping[str, str]) -> int:
    """Write the texts to their paths in the folder, in place of an earlier export; return how many files.

    A folder with any other file is refused. The new folder is made beside the old one, and then replaces it.
    Whoever may enter the folder may read all its files, whatever the umask, as containers run as other users.
    Raises UsageError.
    """
    folder = folder.resolve()
    _check(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
            new_folder, earlier = Path(beside) / "new", Path(beside) / "earlier"
            files = {**written, INDEX: _lines(written)}
            for path, text in files.items():
                (new_folder / path).parent.mkdir(parents=True, exist_ok=True)
                (new_folder / path).write_text(text, "utf-8")
            for inner in new_folder.rglob("*"):
                inner.chmod(_FOLDER if inner.is_dir() else _FILE)
            if folder.exists():
                folder.rename(earlier)
            try:
                new_folder.rename(folder)
            except OSError:
                if earlier.exists():
                    earlier.rename(folder)
                raise
    except OSError as error:
        raise UsageError(f"--output {folder}: cannot be written to: {error.strerror}") from None
    return len(files)


def _lines(paths: Iterable[str]) -> str:
    return "".join(f"{path}\n" for path in sorted(paths))


def _check(folder: Path) -> None:
    """Refuse a folder that contains a file which no export wrote."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"--output {folder}: is a file: must be a folder, or not there yet")
    index = folder / INDEX
    written_names = {*(index.read_text("utf-8", "replace").splitlines() if index.is_file() else ()), INDEX}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if (path.is_symlink() or not path.is_dir()) and name not in written_names:
            allowed = "must be empty, an earlier export, or not there yet"
            raise UsageError(f"--output {folder}: holds {name}, which no export wrote: {allowed}")
        check_output(path)
