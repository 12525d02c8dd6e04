"""`mirrormesh broker start`, `stop`, `status`: a Kafka broker for development on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from streams.mesh.errors import UsageError
from streams.tools.broker.broker import DEFAULT_PORT, Broker
from streams.tools.broker.broker import start as start_broker
from streams.tools.broker.broker import status as broker_status
from streams.tools.broker.broker import stop as stop_broker
from streams.tools.broker.folder import certify
from streams.tools.broker.java import BrokerError, BrokerMisused

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="The broker's own folder. [default: mirrormesh/broker in the user's state folder]",
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        min=1,
        max=64_535,
        help=f"The port for clients; 1,000 above it is used too, by a secure broker 2,000 and 3,000 above. "
        f"[default: the last; first {DEFAULT_PORT}]",
    ),
]
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
OutputOption = Annotated[
    Path, typer.Option("--output", metavar="DIR", help="Where to write USER.crt, USER.key and ca.crt.")
]
SecureOption = Annotated[
    bool, typer.Option("--secure", help="With users, TLS, certificates and ACLs; needs a new folder.")
]


@app.callback()
def _broker() -> None:
    """Start and stop a Kafka broker for development on this machine.

    The broker listens on 127.0.0.1 only. It needs Java 17 or later, and Maven once, to
    fetch Kafka. If you already have a broker, write its address into the mesh file instead.

    \b
    Examples:
      mirrormesh broker start
      mirrormesh broker stop
    """  # noqa: D301 # \b is click's mark: no new line breaks


@app.command()
def start(folder: FolderOption = None, port: PortOption = None, *, secure: SecureOption = False) -> None:
    """Start the broker, and return when it is ready. A running broker is left alone.

    It runs until it is stopped. Its folder keeps the topics for the next start.

    \b
    Examples:
      mirrormesh broker start
      mirrormesh broker start --folder mesh-broker --port 19192 --secure
    """  # noqa: D301 # \b is click's mark: no new line breaks
    with _in_words():
        _show(start_broker(folder or default_folder(), port, secure=secure, say=_say))


@app.command()
def stop(folder: FolderOption = None) -> None:
    """Stop the broker, and return when it has ended. Its topics stay in its folder.

    \b
    Example:
      mirrormesh broker stop
    """  # noqa: D301 # \b is click's mark: no new line breaks
    with _in_words():
        typer.echo("stopped" if stop_broker(folder or default_folder()) else "no broker was running")


@app.command()
def status(folder: FolderOption = None) -> None:
    """Show whether the broker runs, its address and its log. Exit code 1: it does not run.

    \b
    Example:
      mirrormesh broker status || mirrormesh broker start
    """  # noqa: D301 # \b is click's mark: no new line breaks
    with _in_words():
        current = broker_status(folder or default_folder())
    if current is None:
        typer.echo(f"not running; none was ever started in {folder or default_folder()}")
        raise typer.Exit(1)
    _show(current)
    if not current.running:
        raise typer.Exit(1)


@app.command()
def certificate(user: UserArgument, output: OutputOption, folder: FolderOption = None) -> None:
    """Write a user's certificate and key, and the CA's certificate.

    A process that connects with this certificate to the address for security `tls` is the user CN=USER. The
    key is secret.

    \b
    Example:
      mirrormesh broker certificate east --output east-secrets
    """  # noqa: D301 # \b is click's mark: no new line breaks
    with _in_words():
        try:
            pair, ca = certify(folder or default_folder(), user, output)
        except OSError as error:
            raise UsageError(f"{output}: cannot be written to: {error.strerror}") from None
    for name, path in (("certificate", pair.certificate), ("key", pair.key), ("ca", ca)):
        typer.echo(f"{name + ':':13}{path}")


def default_folder() -> Path:
    """Return the folder of the user's broker, independent of the working directory."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "mirrormesh" / "broker"


def _show(broker: Broker) -> None:
    pid = "" if broker.pid is None else f", process {broker.pid}"
    typer.echo(f"running at {broker.address}{pid}" if broker.running else f"not running ({broker.address})")
    if broker.password_file is None:
        typer.echo("access  plain: every process of this machine")
    else:
        typer.echo("access  users and their ACLs; user admin may do everything")
        typer.echo(f"        security sasl      {broker.address}")
        typer.echo(f"        security sasl-tls  {broker.sasl_tls}")
        typer.echo(f"        security tls       {broker.tls}, with a user's certificate")
        typer.echo(f"secret  the password of admin: {broker.password_file}")
        typer.echo(f"ca      {broker.ca}")
    typer.echo(f"folder  {broker.folder}")
    typer.echo(f"log     {broker.log}")


def _say(line: str) -> None:
    typer.echo(line, err=True)


@contextmanager
def _in_words() -> Iterator[None]:
    """Turn the broker's errors into errors of the command line."""
    try:
        yield
    except BrokerMisused as error:
        raise UsageError(str(error)) from None
    except BrokerError as error:
        _say(str(error))
        raise typer.Exit(1) from None
