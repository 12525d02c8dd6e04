"""Passwords of users, each in a file of its own that only its owner may read."""

import os
import secrets
import tempfile
from pathlib import Path

from streams.mesh.errors import UsageError
from streams.mesh.settings.secret_files import shown_to_others

_BYTES = 32


class Passwords:
    """A folder with a password a user. Raises UsageError, as its methods do."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--output {folder}: is a file: must be a folder, or not there yet")
        self.folder = folder

    def path(self, user: str) -> Path:
        """Return the file of a user's password."""
        return self.folder / user

    def of(self, user: str) -> str | None:
        """Return the password of a user, or None if there is none here."""
        path = self.path(user)
        try:
            text = path.read_bytes().decode().rstrip("\r\n")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise UsageError(f"{path}: cannot be read: {reason}: must hold a password in one line") from None
        if not text or any(sign in text for sign in "\n\0"):
            wrong = "has several lines" if text else "is empty"
            raise UsageError(f"{path}: {wrong}: must hold a password in one line")
        return text

    def make(self, user: str) -> str:
        """Write a new password into a file that is not there yet, whole or not at all; return it."""
        path, password = self.path(user), secrets.token_urlsafe(_BYTES)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # for its owner alone, and gone at the end whatever happens
            with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix=".new.") as half:
                half.write(f"{password}\n")
                half.flush()
                os.fsync(half.fileno())
                path.hardlink_to(half.name)  # unlike a renaming, this overwrites nothing
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
        return password

    def shown_to_others(self, user: str) -> bool:
        """Return whether the file of a password is there, and may be read by others, who need not read it."""
        path = self.path(user)
        return path.exists() and shown_to_others(path)
