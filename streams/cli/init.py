"""What comes before a mesh runs: `init` writes a mesh file, `schema` a schema, `key` a pair of keys."""

from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from pydantic_core import PydanticCustomError

from streams.cli.command_line import MessageColumnsOption, RegistryOption, named_broker, named_registry
from streams.mesh.errors import UsageError, writable_folder
from streams.mesh.settings.files import as_flow, from_yaml
from streams.mesh.settings.keys import private_key, public_of
from streams.mesh.shipped import about, data, examples
from streams.state.folder import write_private

# `mirrormesh init`: writes a mesh file to start from, or an example with its data.

TargetArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="The file to write: mesh.yaml, or the example's name.", show_default=False
    ),
]
ExampleOption = Annotated[
    str | None,
    typer.Option(
        "--example", metavar="NAME", help="Write this example, and its data beside it; `list` shows all."
    ),
]
ExplicitOption = Annotated[
    bool, typer.Option("--explicit", help="Write what the rule chooses into the file, each with its reason.")
]
CommentedOption = Annotated[
    bool,
    typer.Option("--commented", help="Write a file of three sensors that explains every setting instead."),
]


def init(
    file: TargetArgument = None,
    *,
    example: ExampleOption = None,
    explicit: ExplicitOption = False,
    commented: CommentedOption = False,
) -> None:
    """Write a mesh file to start from, or an example with its data.

    The file is short: what it leaves out follows by rule from a few public numbers, and `plan` shows it. Its
    made-up records are written into the folder `records` beside it. With --explicit the file also has what
    the rule chooses. All files run unchanged. Existing files are never overwritten.

    \b
    Examples:
      mirrormesh init mesh.yaml && mirrormesh run mesh.yaml
      mirrormesh init mesh.yaml --explicit
      mirrormesh init sensors.yaml --commented
      mirrormesh init --example list
      mirrormesh init --example income && mirrormesh run income.yaml
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if example == "list":
        for name, path in examples().items():
            typer.echo(f"{name:<22} {about(path)}")
        return
    choices = {"--example": example is not None, "--explicit": explicit, "--commented": commented}
    selected = [name for name, is_selected in choices.items() if is_selected]
    if len(selected) > 1:
        raise UsageError(f"{' and '.join(selected)}: must be one of them")
    if example is not None:
        file = file or Path(f"{example}.yaml")
        _write_example(file, example)
    elif commented:
        file = file or Path("mesh.yaml")
        _write(file, files("streams.mesh").joinpath("starter.yaml").read_bytes())
    else:
        file = file or Path("mesh.yaml")
        _write_short(file, explicit=explicit)
    typer.echo(f"wrote {file}; next: mirrormesh plan {file}")


_RECORDS = {"north": 1_000, "south": 1_000, "west": 1_000, "test": 1_000}
"""The made-up records of each party, and those that nobody learns from."""


def _write_short(file: Path, *, explicit: bool) -> None:
    """Write the records first, so that no mesh file exists without them."""
    text = files("streams.mesh").joinpath("short.yaml").read_text("utf-8")
    if file.exists():
        raise UsageError(f"{file}: is there already: must be a new file")
    if not file.parent.is_dir():
        raise UsageError(f"{file}: cannot be written: no such folder")
    for name, rows in _RECORDS.items():
        _write_data(file.parent, Path("records") / f"{name}.csv", _made_up(name, rows))
    _write(file, (_explicit(text) if explicit else text).encode())


def _made_up(name: str, rows: int) -> bytes:
    """Return rows of ages, hours, jobs and incomes, the same every time."""
    draw = Random(name).random  # noqa: S311 # made-up records, which protect nothing
    lines = ["age,hours,job,income"]
    for _ in range(rows):
        age, hours = 18 + int(53 * draw()), 10 + int(51 * draw())
        job = ("clerk", "farmer", "manager")[int(3 * draw())]
        score = 0.04 * age + 0.05 * hours + (1.5 if job == "manager" else 0.0) - 4.5
        noise = sum(draw() for _ in range(4)) - 2
        lines.append(f"{age},{hours},{job},{'high' if score + noise > 0 else 'low'}")
    return "\n".join([*lines, ""]).encode()


def _explicit(text: str) -> str:
    """Return the text with what its rule chooses written out."""
    from streams.mesh.settings.mesh import MeshSettings  # noqa: PLC0415 # a short file needs none of it
    from streams.mesh.settings.rule import resolved  # noqa: PLC0415 # as above

    mesh = from_yaml(text)["mesh"]
    parts = {"slots": {"by": "count"}, "algorithm": {}, "privacy": dict(mesh["privacy"])}
    reasons: dict[str, list[str]] = {key: [] for key in parts}
    for key, choice, value in resolved(MeshSettings.model_validate(mesh)):
        part, name = key.split(".")
        parts[part][name] = value
        reasons[part].append(f"  # {key}: {choice.why}")
    blocks = {key: "\n".join([*reasons[key], f"  {key}: {as_flow(part)}"]) for key, part in parts.items()}
    lines = []
    for line in text.splitlines():
        if line.startswith("  privacy:"):
            lines += list(blocks.values())
        else:
            lines.append(line)
    return "\n".join([*lines, ""])


def _write_example(file: Path, name: str) -> None:
    """Write the data first, so that no mesh file exists without it."""
    by_name = examples()
    if name not in by_name:
        raise UsageError(f"--example: {name!r}: must be list or one of {', '.join(by_name)}")
    if file.exists():
        raise UsageError(f"{file}: is there already: must be a new file")
    for path in data(by_name[name]):
        _write_data(file.parent, path, (by_name[name].parent / path).read_bytes())
    _write(file, by_name[name].read_bytes())


def _write_data(folder: Path, path: Path, content: bytes) -> None:
    """Write a file of records below the folder; another mesh file may have written the same."""
    target = folder / path
    if not (target.is_file() and target.read_bytes() == content):
        _make(target.parent, folder)
        _write(target, content)


def _make(folder: Path, within: Path) -> None:
    """Create `folder` and its missing parents within `within`, which must exist."""
    if within.is_dir():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made: {error.strerror}") from None


def _write(file: Path, content: bytes) -> None:
    try:
        with file.open("xb") as output:
            output.write(content)
    except FileExistsError:
        raise UsageError(f"{file}: is there already: must be a new file") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None


# `mirrormesh key`: makes the pair of keys that a process signs with.


def key(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file of the private key.", show_default=False)
    ],
) -> None:
    """Make a key that signs, and show the public one.

    FILE is written with mode 0600. The process that signs names it as brokers.mesh.signing_key. The public
    key is for everybody: write it to mesh.nodes.NAME.key, or to mesh.schedulers. If FILE exists, only its
    public key is shown.

    \b
    Example:
      mirrormesh key secrets/east.key
    """  # noqa: D301 # \b is click's mark: no new line breaks
    try:
        if not file.exists():
            _make_key(file)
        typer.echo(f"key: {public_of(private_key(str(file)))}")
    except PydanticCustomError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None


def _make_key(file: Path) -> None:
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


# `mirrormesh schema`: writes a commented schema by looking at records.


def schema(
    records: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The records.", show_default=False)
    ] = None,
    *,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="A topic, in FILE's place: of JSON objects, or as --registry or --columns say.",
        ),
    ] = None,
    servers: Annotated[
        str | None, typer.Option("--servers", metavar="HOST:PORT", help="The broker of the topic.")
    ] = None,
    broker: Annotated[
        Path | None,
        typer.Option(
            "--broker",
            metavar="FILE",
            help="A YAML file of the broker's keys, as under brokers in a mesh file.",
        ),
    ] = None,
    registry: RegistryOption = None,
    columns: MessageColumnsOption = None,
    first: Annotated[
        int, typer.Option("--first", min=1, metavar="N", help="The number of records to look at.")
    ] = 1_000,
    public: Annotated[
        bool,
        typer.Option("--public", help="The records are public: fit bounds and lists to them."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write it there. [default: print]")
    ] = None,
) -> None:
    """Write a commented schema by looking at records.

    The command reads the first records of a file or topic and recognises CSV (with its dialect), JSON lines
    and Parquet. It proposes a type that fits most values of each column, and candidates for the label and for
    times. The proposals depend on the records, so confirm each line. Bounds and lists are left as
    placeholders, which `check` refuses until you fill them in from knowledge that does not come from the
    records. With --public, bounds and lists are fitted to the records, which must then be public.

    Messages of a topic are JSON objects, CSV lines with --columns, or Avro with --registry. The registry's
    schemas give the types of Avro values.

    The schema is for one source, or for all as mesh.features. The source's setting is at the top of the
    output.

    \b
    Examples:
      mirrormesh schema payments.csv --output schema.yaml
      mirrormesh schema pilot.parquet --public --output schema.yaml
      mirrormesh schema --topic payments.authorised --servers 127.0.0.1:9092
      mirrormesh schema --topic payments --servers kafka:9092 --registry http://registry:8081
    """  # noqa: D301 # \b is click's mark: no new line breaks
    from streams.bus.bus import BusError  # noqa: PLC0415 # init and key need none of these
    from streams.tools.schema import sample_of_file, sample_of_topic, schema_text  # noqa: PLC0415

    if (records is None) == (topic is None) or (topic is None) != (servers is None and broker is None):
        raise UsageError("schema: must have either FILE, or --topic and --servers or --broker")
    for option, value in (("--registry", registry), ("--columns", columns)):
        if value is not None and topic is None:
            raise UsageError(f"{option} {value}: goes with --topic")
    if registry is not None and columns is not None:
        raise UsageError("--registry and --columns: must be one of them")
    of_topic = named_broker(servers, broker)
    if output is not None and output.exists():
        raise UsageError(f"--output {output}: is there already: must be another file, which is not")
    try:
        if topic is not None and of_topic is not None:
            names = None if columns is None else tuple(columns.split(","))
            sample = sample_of_topic(topic, of_topic, first, named_registry(registry), names)
        else:
            sample = sample_of_file(records or "-", first)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    text = schema_text(sample, public=public, output=output or Path("schema.yaml"))
    if output is None:
        typer.echo(text, nl=False)
        return
    writable_folder(output.parent, [output.name])
    output.write_text(text, "utf-8")
    typer.echo(f"Wrote {output}.")
