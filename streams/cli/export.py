"""`mirrormesh export`: writes what runs a mesh elsewhere."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.command_line import CodeOption, MeshArgument, cautioned
from streams.tools.export import compose as on_compose
from streams.tools.export import kubernetes as on_kubernetes
from streams.tools.export import systemd as on_systemd
from streams.tools.export.asked import ExportFormat, check_image, files_for, write_folder
from streams.tools.export.cluster import Cluster

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

PartyOption = Annotated[
    str | None,
    typer.Option(
        "--party",
        metavar="NAME",
        help="Write this party's nodes; of a collaboration the learner, or an owner.",
        show_default=False,
    ),
]
OperatorOption = Annotated[
    bool, typer.Option("--mesh-operator", help="Write what the mesh's operator runs: the scheduler.")
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "--output",
        metavar="DIR",
        help="The folder to write: empty, an earlier export, or not there yet.",
        show_default=False,
    ),
]
ImageOption = Annotated[
    str, typer.Option("--image", metavar="IMAGE", help="The image, with its digest.", show_default=False)
]


@app.callback()
def _export() -> None:
    """Write what runs a mesh: for Kubernetes, compose or bare hosts.

    Each party exports its own nodes, and the mesh's operator exports the rest. An export contains nothing of
    another party's own part and no secret, so a mesh file that contains a secret is refused.

    \b
    Example:
      mirrormesh export kubernetes mesh.yaml --party bank-1 --output bank-1 --image IMAGE
    """  # noqa: D301 # \b is click's mark: no new line breaks


CidrOption = Annotated[
    list[str] | None,
    typer.Option(
        "--broker-cidr",
        metavar="CIDR",
        help="A network where brokers are; may be repeated. [default: anywhere, on their ports]",
    ),
]
MonitoringOption = Annotated[
    str, typer.Option("--monitoring-namespace", metavar="NAME", help="Whose pods may read shared metrics.")
]
KafkaNamespaceOption = Annotated[
    str, typer.Option("--kafka-namespace", metavar="NAME", help="Where Strimzi looks for topics and users.")
]
KafkaClusterOption = Annotated[
    str, typer.Option("--kafka-cluster", metavar="NAME", help="The name of Strimzi's Kafka.")
]
CertificatesOption = Annotated[
    bool,
    typer.Option(
        "--own-certificates", help="Users bring their certificates (tls-external): Strimzi makes none."
    ),
]

PriorityOption = Annotated[
    str | None,
    typer.Option(
        "--priority-class", metavar="NAME", help="The PriorityClass of all pods. [default: the cluster's]"
    ),
]

ChartOption = Annotated[
    bool, typer.Option("--chart", help="Write a Helm chart in place of manifests and a kustomization.")
]


@app.command()
def kubernetes(
    mesh: MeshArgument,
    *,
    output: OutputOption,
    image: ImageOption,
    party: PartyOption = None,
    mesh_operator: OperatorOption = False,
    code: CodeOption = None,
    broker_cidr: CidrOption = None,
    monitoring_namespace: MonitoringOption = "monitoring",
    kafka_namespace: KafkaNamespaceOption = "kafka",
    kafka_cluster: KafkaClusterOption = "shared",
    own_certificates: CertificatesOption = False,
    priority_class: PriorityOption = None,
    chart: ChartOption = False,
) -> None:
    """Write Kubernetes manifests and a kustomization, or a Helm chart.

    For a party, the manifests are a StatefulSet of one replica for each node, whose volume is kept, with its
    monitoring and network policies. For the mesh's operator they are two schedulers, and Strimzi's topics
    and users. The names of parties and nodes become Kubernetes names; two names that become the same one are
    refused. In a collaboration the parties are the learner and each owner. An owner whose set is a file reads
    it from the volume of the claim owner-NAME-set. A node's file, if its source has a path, is fed by a
    Deployment from the volume of the claim feed-NAME-set.

    Each process needs a Secret of the same name, with the variables of the mesh file and its files
    (mesh-ca, data-password and so on) as keys. An export never contains a Secret.

    \b
    Examples:
      mirrormesh export kubernetes mesh.yaml --party bank-1 --output bank-1 --image IMAGE
      mirrormesh export kubernetes mesh.yaml --mesh-operator --output operator --image IMAGE
    """  # noqa: D301 # \b is click's mark: no new line breaks
    warned = check_image(image)
    cluster = Cluster(
        image,
        tuple(broker_cidr or ()),
        monitoring_namespace,
        kafka_namespace,
        kafka_cluster,
        own_certificates,
        priority_class,
        chart,
    )
    kind = ExportFormat(
        lambda raw, whose: on_kubernetes.party(raw, whose, cluster),
        lambda raw: on_kubernetes.operator(raw, cluster),
        lambda raw, whose: on_kubernetes.participant(raw, whose, cluster),
        lambda raw: on_kubernetes.collaboration_operator(raw, cluster),
        on_kubernetes.warnings,
    )
    files, warnings = files_for(mesh, party, kind, cautioned, mesh_operator=mesh_operator, code=code or ())
    _write(output, files, [warned, *warnings])


@app.command()
def systemd(
    mesh: MeshArgument,
    *,
    output: OutputOption,
    party: PartyOption = None,
    mesh_operator: OperatorOption = False,
    code: CodeOption = None,
) -> None:
    """Write units of systemd for bare hosts.

    The export also has the units' mesh files, and a README.md with the commands that install the units. In a
    collaboration the parties are the learner and each owner.

    \b
    Examples:
      mirrormesh export systemd mesh.yaml --party bank-1 --output bank-1
      mirrormesh export systemd mesh.yaml --mesh-operator --output operator
    """  # noqa: D301 # \b is click's mark: no new line breaks
    kind = ExportFormat(on_systemd.party, on_systemd.operator, on_systemd.participant)
    files, _ = files_for(mesh, party, kind, cautioned, mesh_operator=mesh_operator, code=code or ())
    _write(output, files, (), "; README.md says what to do with them")


@app.command()
def compose(
    mesh: MeshArgument,
    *,
    output: OutputOption,
    image: ImageOption,
    party: PartyOption = None,
    mesh_operator: OperatorOption = False,
    code: CodeOption = None,
) -> None:
    """Write a compose file, with Prometheus and Grafana.

    For a party, the file has a service for each of its nodes, whose journal is in a volume. For the mesh's
    operator it has the scheduler. Secrets are files beside the export and never inside it; compose.yaml names
    them. The topics (`mirrormesh provision`) and their records must exist already. In a collaboration the
    parties are the learner and each owner; an owner's set that is a file lies beside the export too.

    \b
    Examples:
      mirrormesh export compose mesh.yaml --party bank-1 --output bank-1 --image IMAGE
      mirrormesh export compose mesh.yaml --mesh-operator --output operator --image IMAGE
    """  # noqa: D301 # \b is click's mark: no new line breaks
    warned = check_image(image)
    kind = ExportFormat(
        lambda raw, whose: on_compose.party(raw, whose, image),
        lambda raw: on_compose.operator(raw, image),
        lambda raw, whose: on_compose.participant(raw, whose, image),
    )
    files, _ = files_for(mesh, party, kind, cautioned, mesh_operator=mesh_operator, code=code or ())
    _write(output, files, [warned])


def _write(output: Path, written: Mapping[str, str], warnings: Iterable[str | None], more: str = "") -> None:
    """Write the files and print how many; also print each of the `warnings` that is not None."""
    count = write_folder(output, written)
    for line in filter(None, warnings):
        typer.echo(line, err=True)
    typer.echo(f"{output}: {count} files{more}")
