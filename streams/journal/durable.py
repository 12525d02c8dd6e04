"""A small file for its owner's eyes, in place of what stood there, whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path


def write_private(path: Path, text: Callable[[Path], str]) -> None:
    """Write `text(the new file)`, mode 0600; durable when this returns. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # its mode may be another
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text(new))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
