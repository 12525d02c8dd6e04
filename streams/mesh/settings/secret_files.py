"""Secrets and paths in the settings of a broker: from the environment, or from files."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo
from pydantic_core import PydanticCustomError

from streams.mesh.settings.base import refusal
from streams.mesh.settings.files import FromEnvironment, beside, from_environment, is_path, read_small


def _path(value: object, info: ValidationInfo) -> str:
    """Read a path, relative to the file that names it."""
    path = from_environment(value, info)
    if not isinstance(path, str) or not is_path(path) or "\n" in path:
        raise refusal("must be the path of a file, not what it holds")
    return beside(path, info)


def _whole(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not text:
        raise refusal("is empty: must be the password")
    if "\0" in text or "\n" in text:
        raise refusal("must be one line")  # PLAIN ends a password with a zero byte
    return secret


FileName = Annotated[str, BeforeValidator(_path)]
"""The path of a file."""
PlainSecret = Annotated[SecretStr, Field(strict=False), FromEnvironment, AfterValidator(_whole)]
"""A secret, never shown; `${NAME}` is replaced from the environment."""


def read_secrets(value: Mapping[str, Any], keys: tuple[str, ...], info: ValidationInfo) -> dict[str, Any]:
    """Return the mapping with each secret `key` that `key_file` names the file of."""
    with_secrets = dict(value)
    for key in keys:
        named = f"{key}_file"
        if with_secrets.get(named) is None:
            continue
        if with_secrets.get(key) is not None:
            raise refusal(f"{key} is there too: must be one of the two", named)
        try:
            path = _path(with_secrets[named], info)
        except PydanticCustomError as error:
            raise refusal(str(error), named) from None
        with_secrets[key] = SecretStr(_secret(path, named) if are_read(info) else f"what {named} holds")
    return with_secrets


def are_read(info: ValidationInfo) -> bool:
    """Return whether files of secrets are read: not where the mesh file is for a process elsewhere."""
    return info.context is None or info.context.get("secrets", True)


def _secret(path: str, setting: str) -> str:
    try:
        text = read_small(path).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise refusal(f"{path}: is not text: must hold the password in one line", setting) from None
    except OSError as error:
        raise refusal(_unread(path, error), setting) from None
    if not text or "\n" in text or "\0" in text:
        wrong = "has several lines" if text else "is empty"
        raise refusal(f"{path}: {wrong}: must hold the password in one line", setting)
    return text


def _unread(path: str, error: OSError) -> str:
    """Return why a secret's file cannot be read; a path that leads nowhere may be the secret itself."""
    if os.path.lexists(path):
        return f"{path}: {why(error)}"
    folder = os.path.dirname(path)  # noqa: PTH120 # Path raises where a part may not be read
    place = f" in {folder}" if os.path.lexists(folder) else ""
    return f"there is no such file{place}: must be the path of a file that holds the password in one line"


def shown_to_others(path: str | Path) -> bool:
    """Return whether a file may be read by others, who need not read it. Raises OSError.

    Where it is another's, as in a container, this process itself may be one who needs to.
    """
    status = Path(path).stat()
    is_owner = os.geteuid() in {0, status.st_uid}
    return is_owner and bool(status.st_mode & (stat.S_IRGRP | stat.S_IROTH))


def why(error: OSError) -> str:
    """Return why a file cannot be read."""
    return f"cannot be read: {error.strerror or 'no such file'}"
