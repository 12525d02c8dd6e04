"""`mirrormesh key`: makes the pair of keys that a process signs with."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import PydanticCustomError

from streams.mesh.errors import UsageError
from streams.mesh.settings.keys import private_key, public_of
from streams.state.folder import write_private


def key(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file of the private key.", show_default=False)
    ],
) -> None:
    """Make a key that signs, and show the public one.

    FILE is written with mode 0600, for brokers.mesh.signing_key of the process that signs. The public key
    is for everybody: it goes to mesh.nodes.NAME.key, or to mesh.schedulers. If FILE is there, only its
    public key is shown.

    \b
    Example:
      mirrormesh key secrets/east.key
    """  # noqa: D301 # \b is click's mark: no new line breaks
    try:
        if not file.exists():
            _make(file)
        typer.echo(f"key: {public_of(private_key(str(file)))}")
    except PydanticCustomError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None


def _make(file: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 # a file may be there
        Ed25519PrivateKey,
    )
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 # as above
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    private_key = Ed25519PrivateKey.generate()
    text = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
    write_private(file, lambda _: text)
