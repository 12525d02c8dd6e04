"""`mirrormesh audit mechanism` and `audit releases`: checks for sceptics."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nodes.audit import audit_person
from nodes.privacy.mechanism import Audited
from streams.bus.bus import BusError
from streams.cli.command_line import MeshArgument, cautioned, member_names
from streams.collaboration.file import CollaborationFile
from streams.mesh.errors import UsageError, chosen, no_file
from streams.mesh.file import MeshFile, load, load_any
from streams.mesh.kind import WrongKind, dispatch
from streams.mesh.settings.privacy import EpsilonSettings
from streams.status.account import charge_counts
from streams.status.audit import (
    Subject,
    answer_draws,
    answer_subjects,
    audit_releases,
    audit_responses,
    audited,
    audited_answers,
    person_subjects,
    read_collaboration,
    read_mesh,
    subjects,
)
from streams.terminal.audits import (
    answer_facts,
    audit_bar,
    mechanism_facts,
    person_facts,
    person_footer,
    release_facts,
    releases_json,
    response_facts,
    responses_json,
)
from streams.terminal.report import say_facts

_SEEDED = "a seed repeats this noise, so no epsilon is claimed: must be exact to be audited"
app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _audit() -> None:
    """Search for violations of a mesh's privacy guarantee.

    Audits the mesh's mechanisms, or its releases.

    \b
    Examples:
      mirrormesh audit mechanism mesh.yaml
      mirrormesh audit releases mesh.yaml
    """  # noqa: D301 # \b is click's mark: no new line breaks


@app.command()
def mechanism(
    mesh: MeshArgument,
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="NODE",
            help="This node's, or owner's. [default: all]",
            show_default=False,
            autocompletion=member_names,
        ),
    ] = None,
    *,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws",
            metavar="N",
            min=100,
            max=10_000_000,
            help="Draws on each of two slots. [default: 40000, for answers 1000000, or what takes a minute]",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="C", help="Confidence of all bounds together, in (0, 1).")
    ] = 0.95,
) -> None:
    """Try to refute the claims of a mesh's mechanisms.

    Draws from the mechanisms, runs a lattice test and computes a lower bound on epsilon. Reads only the mesh
    file; nodes with the same settings are audited once. For a collaboration, audits the owners' answers: the
    bound is that of all T answers of an owner, computed from draws of one answer. A bound below the claimed
    epsilon proves nothing. At confidence 0.95, one audit in 20 of a sound mechanism may give a bound above
    the claimed epsilon. Exit code 1: a claim is refuted.

    \b
    Examples:
      mirrormesh audit mechanism mesh.yaml
      mirrormesh audit mechanism mesh.yaml east --draws 200000 --confidence 0.999
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = cautioned(load_any(mesh))
    if not 0.0 < confidence < 1.0:
        raise UsageError(f"--confidence {confidence}: must be above 0 and below 1")
    dispatch("audit mechanism", file, node, draws, confidence)


def audit_mechanisms(file: MeshFile, node: str | None, draws: int | None, confidence: float) -> None:
    """Audit the mechanisms of a mesh's nodes."""
    protecting = _protecting(file, node)
    sound, confidence_each = True, 1 - (1 - confidence) / len(protecting)  # so that all of them hold together
    for subject, mechanism in protecting:
        with audit_bar(mechanism, draws) as progress:
            audit = audited(mechanism, draws, confidence_each, progress)
        facts = mechanism_facts(file.resolved, subject, audit, confidence, len(protecting))
        say_facts(Console(highlight=False), facts)
        sound = sound and audit.sound
    if not sound:
        raise typer.Exit(1)


@app.command()
def person(
    mesh: MeshArgument,
    node: Annotated[
        str | None,
        typer.Argument(metavar="NODE", help="This node's. [default: the first]", show_default=False),
    ] = None,
    *,
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            metavar="N",
            min=100,
            max=1_000_000,
            help="Runs on each side. [default: 1000, or what takes a minute]",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="C", help="Confidence of all bounds together, in (0, 1).")
    ] = 0.95,
) -> None:
    """Show what 100 records of one person give away.

    Without a privacy unit, and with that of the file.

    Draws from a node's own mechanism what all releases say of a person, one of whose records is in each of
    its rounds, and computes a lower bound on the person's epsilon. Beside it stands the control, a person
    with one record. Reads only the mesh file. It is a demonstration, and proves no guarantee: a few runs
    cannot certify a large epsilon, nor see that a person is in one round too many. Exit code 1: a claim is
    refuted. At confidence 0.95 that may happen to one sound mesh in 20.

    \b
    Examples:
      mirrormesh audit person mesh.yaml
      mirrormesh audit person mesh.yaml east --runs 5000
    """  # noqa: D301 # \b is click's mark: no new line breaks
    try:
        file = cautioned(load(mesh))
    except WrongKind as error:
        raise error.of_command("audit person") from None
    if not 0.0 < confidence < 1.0:
        raise UsageError(f"--confidence {confidence}: must be above 0 and below 1")
    name = chosen(file.mesh.nodes, node)[0]
    _protecting(file, name)
    if isinstance(file.mesh.privacy_of(name).epsilon, EpsilonSettings):
        text = "a schedule gives a person another epsilon in each round: must be a number to be audited"
        raise file.refuse(("mesh", "privacy", "epsilon"), text)
    plain = replace(file, mesh=file.mesh.without_unit())
    bounded = file.resolved.node(name).mechanism
    unit, rounds = file.mesh.unit, file.mesh.rounds
    persons = person_subjects(plain.resolved.node(name).mechanism, bounded, unit, rounds)
    confidence_each, sound = 1 - (1 - confidence) / len(persons), True
    for subject in persons:
        count = runs or subject.runs
        audit = audit_person(subject.mechanism, subject.records, subject.apart, count, confidence_each)
        say_facts(Console(highlight=False), person_facts(subject, audit))
        sound = sound and not audit.refuted
    typer.echo(person_footer(bounded=file.mesh.unit is not None, confidence=confidence, count=len(persons)))
    if not sound:
        raise typer.Exit(1)


@app.command()
def releases(
    mesh: MeshArgument,
    *,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Where journals are kept.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one object.")] = False,
) -> None:
    """Check everything that a mesh has released.

    Reads every stored edge, plan and heartbeat, as anybody on the mesh broker could. Reports second values
    for a round; rounds or instances that no plan names; releases without noise where noise is due, and with
    noise where none may be drawn; simulated noise; undecodable records; fewer charges than releases with
    noise. Charges come from the journals in --state. For other nodes they are counted from the plans, and the
    count is too low if the broker has lost plans. The command needs a user who may read all edges. Edges of
    earlier mesh files of the run are read if the run's plans name them. Edges that cannot be read, such as
    those of nodes that have left, are listed.
    For a collaboration, reads all queries and responses. Each query must have one theta, each owner at most
    one answer to a query and none after the last query, and all messages of a party must come from one
    journal.

    Exit code 1: a mistake was found.

    \b
    Examples:
      mirrormesh audit releases mesh.yaml
      mirrormesh audit releases mesh.yaml --json
    """  # noqa: D301 # \b is click's mark: no new line breaks
    dispatch("audit releases", cautioned(load_any(mesh)), no_file(state), as_json=as_json)


def audit_of_releases(file: MeshFile, state: Path | None, *, as_json: bool) -> None:
    """Audit what a mesh's nodes have released."""
    try:
        log_contents = read_mesh(file)
        charged = {
            name: account.charged for name, account in charge_counts(file, file.mesh.nodes, state).items()
        }
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    settings = file.mesh
    findings = audit_releases(
        log_contents.plans,
        log_contents.releases,
        log_contents.sources,
        horizon=settings.horizon,
        exact_noise=settings.privacy.noise == "exact",
        charged=charged,
    )
    if as_json:
        typer.echo(json.dumps(releases_json(settings, findings, log_contents), indent=2))
    else:
        say_facts(Console(highlight=False), release_facts(settings, findings, log_contents))
    if findings.findings or log_contents.undecodable:
        raise typer.Exit(1)


def audit_answers(file: CollaborationFile, owner: str | None, draws: int | None, confidence: float) -> None:
    """Audit the answers of a collaboration's owners."""
    names = chosen(file.mesh.owners, owner, "an owner of the collaboration")
    if not file.mesh.noise.exact:
        raise file.refuse(("mesh", "noise"), _SEEDED, file.mesh.noise.model_dump(exclude_unset=True))
    audit_subjects = answer_subjects(file.resolved, names)
    sound, confidence_each = True, 1 - (1 - confidence) / len(audit_subjects)
    for subject in audit_subjects:
        mechanism, draw_count = subject.mechanism, draws or answer_draws(subject.mechanism)
        with audit_bar(mechanism.audited, draw_count) as progress:
            audit = audited_answers(mechanism, draw_count, confidence_each, progress)
        say_facts(Console(highlight=False), answer_facts(subject, audit, confidence, len(audit_subjects)))
        sound = sound and audit.sound
    if not sound:
        raise typer.Exit(1)


def audit_of_responses(file: CollaborationFile, state: Path | None, *, as_json: bool) -> None:
    """Audit what a collaboration's parties have sent. Every answer is charged, so `state` adds nothing."""
    del state
    try:
        messages = read_collaboration(file)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    findings = audit_responses(messages, file.mesh.queries, exact_noise=file.mesh.noise.exact)
    if as_json:
        typer.echo(json.dumps(responses_json(file.mesh, findings, messages), indent=2))
    else:
        say_facts(Console(highlight=False), response_facts(file.mesh, findings, messages))
    if findings or messages.undecodable:
        raise typer.Exit(1)


def _protecting(file: MeshFile, node: str | None) -> list[tuple[Subject, Audited]]:
    """Return the mechanisms to audit. Raises UsageError, MeshFileError if there is none."""
    node_subjects = subjects(file.resolved, chosen(file.mesh.nodes, node))
    protecting = [(subject, subject.mechanism) for subject in node_subjects if subject.mechanism is not None]
    if not protecting:
        raise UsageError("mechanism none claims no epsilon: there is nothing to audit")
    if file.mesh.privacy.noise != "exact":
        raise file.refuse(
            ("mesh", "privacy", "noise"),
            _SEEDED,
            file.mesh.privacy.noise,
        )
    return protecting
