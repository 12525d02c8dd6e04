"""Shows the results of audits, and their progress."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nodes.audit import Audit, most_certified
from nodes.privacy.mechanism import Audited
from streams.collaboration.settings import CollaborationSettings
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from streams.status.audit import (
    DRAWS,
    AnswerSubject,
    Findings,
    MechanismAudit,
    PersonSubject,
    Read,
    Said,
    Subject,
    Wrong,
    affordable,
)
from streams.terminal.collaboration import at_own_delta, noise
from streams.terminal.text import at_delta, counted, described, listed

_SHOWN = 50


@contextmanager
def audit_bar(mechanism: Audited, draws: int | None) -> Iterator[Callable[[int], None]]:
    """Show an audit's progress on a terminal.

    Yields a function that is called with the number of new draws.
    """
    console, total = Console(stderr=True), 2 * (draws or affordable(mechanism)[0])
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{mechanism.name}, {counted(total, 'draw')}", total=total)
        yield partial(progress.advance, task)


def mechanism_facts(
    mesh: Mesh, subject: Subject, done: MechanismAudit, confidence: float, count: int
) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of one audit. Of `count` audits all hold at this confidence together."""
    mechanism = subject.mechanism
    yield "mechanism", described(mesh.node(subject.nodes[0]), None)
    if subject.round is not None:
        yield "round", f"{subject.round:,}, whose epsilon is the largest"
    yield "nodes", listed(subject.nodes)
    yield from _found(
        done, f"{at_delta(mechanism.delta if mechanism else 0.0)} of one record", confidence, count
    )


def person_facts(subject: PersonSubject, audit: Audit) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of the audit of one person."""
    delta = at_delta(subject.mechanism.delta)
    yield "person", subject.name
    ceiling = most_certified(audit.draws, audit.confidence)
    limit = f" (so many runs certify at most {ceiling:.3g})" if subject.mechanism.mu is None else ""
    yield "bound", f"epsilon is at least {audit.lower_bound:.3g}{delta}{limit}"
    verdict = "REFUTED" if audit.refuted else "not refuted"
    kind = "stated" if subject.protected or subject.records == 1 else "what follows"
    yield "claim", f"{audit.claimed:.6g}, {kind}: {verdict}"
    yield "runs", f"{audit.draws:,} on each side, and as many to choose the event"


def person_footer(*, bounded: bool, confidence: float, count: int) -> str:
    """Return what the audits of persons do not show."""
    unit = "" if bounded else " No unit is named (mesh.privacy.unit), so nothing bounds a person's rounds."
    return (
        f"All {count} bounds hold together at {confidence:.6g} confidence. This is a demonstration: it "
        f"cannot see that a person is in one round too many, and proves no guarantee.{unit}"
    )


def answer_facts(
    subject: AnswerSubject, done: MechanismAudit, confidence: float, count: int
) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of the audit of owners' answers.

    `confidence` and `count` as in `mechanism_facts`.
    """
    mechanism = subject.mechanism
    yield "mechanism", noise(mechanism)
    yield "owners", listed(subject.owners)
    of = f"{at_own_delta(mechanism)} of one record, for all {mechanism.queries:,} answers of an owner"
    yield from _found(done, of, confidence, count)


def _found(done: MechanismAudit, of: str, confidence: float, count: int) -> Iterator[tuple[str, str]]:
    """Yield what the draws have shown. `of` names the delta and the records of the claimed epsilon."""
    audit = done.audit
    pairs = counted(done.pairs, "pair")
    yield (
        "lattice",
        f"holds: the same draws gave {pairs} of slots the same release, bit for bit"
        if done.lattice
        else f"BROKEN: of {pairs} of slots one has shown in its release, whatever is drawn",
    )
    every = f", all {count} together" if count > 1 else ""
    bound = f"epsilon is at least {audit.lower_bound:.4g}{of}"
    yield "bound", f"{bound}, at {confidence:.6g} confidence{every}"
    verdict = "REFUTED" if audit.refuted else "not refuted (which proves nothing)"
    yield "claim", f"{audit.claimed:.6g}: {verdict}"
    lowered = f", not {DRAWS:,}: a draw takes long at this size" if done.lowered else ""
    yield "draws", f"{audit.draws:,} on each of two slots that differ in one record{lowered}"


def release_facts(mesh: MeshSettings, findings: Findings, read: Read) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about the releases on the edges."""
    yield "mesh", f"{mesh.name}, run {mesh.run}"
    releases, records = counted(findings.values, "release"), counted(len(read.releases), "record")
    yield "read", f"{releases} in {records} on all edges, {counted(len(read.plans), 'plan')}"
    if read.unread:
        names = listed([f"{source} to {target}" for source, target in read.unread])
        yield "not read", f"{counted(len(read.unread), 'edge')} of other generations of the file: {names}"
    if findings.unjudged:
        yield "older", f"{counted(findings.unjudged, 'release')} of rounds whose plans are not kept any more"
    if mesh.privacy.noise != "exact":
        yield "noise", "simulated, as the mesh file says: nothing is protected"
    for finding in findings.findings[:_SHOWN]:
        place = f"round {finding.round:,} of {finding.source}, instance {finding.instance}"
        edges = f", to {', '.join(finding.edges)}" if finding.edges else ""
        yield finding.kind.value, f"{place}{edges}: {finding.detail}"
    if len(findings.findings) > _SHOWN:
        yield "more", f"{len(findings.findings) - _SHOWN:,} findings: --json has them all"
    for (topic, reason), count in sorted(read.undecodable.items()):
        yield "undecodable", f"{counted(count, 'record')} of {topic}: {reason}"
    wrong = len(findings.findings) + read.undecodable.total()
    yield "found", counted(wrong, "thing") + " wrong" if wrong else "nothing wrong"


def releases_json(mesh: MeshSettings, findings: Findings, read: Read) -> dict[str, Any]:
    """Return the facts about the releases for programs."""
    undecodable = read.undecodable
    return {
        "mesh": mesh.name,
        "run": mesh.run,
        "clean": not findings.findings and not undecodable,
        "releases": findings.values,
        "unjudged": findings.unjudged,
        "unread": [{"source": source, "target": target} for source, target in read.unread],
        "findings": [finding._asdict() | {"kind": finding.kind.value} for finding in findings.findings],
        "undecodable": [
            {"topic": topic, "reason": reason, "count": count}
            for (topic, reason), count in sorted(undecodable.items())
        ],
    }


# Shows the audit of a collaboration's queries and responses.


def response_facts(
    mesh: CollaborationSettings, found: Sequence[Wrong], said: Said
) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about queries and responses."""
    yield "mesh", f"{mesh.name}, run {mesh.run}"
    query_count = len({message.number for message in said.queries if not message.final})
    answers, records = counted(said.answers, "answer"), counted(len(said.responses), "record")
    yield "read", f"{query_count:,} of {mesh.queries:,} queries, {answers} in {records}"
    if not mesh.noise.exact:
        yield "noise", "simulated, as the mesh file says: nothing is protected"
    for message in found[:_SHOWN]:
        yield message.kind, f"query {message.query:,} of {message.party}: {message.detail}"
    if len(found) > _SHOWN:
        yield "more", f"{len(found) - _SHOWN:,} findings: --json has them all"
    for (topic, reason), count in sorted(said.undecodable.items()):
        yield "undecodable", f"{counted(count, 'record')} of {topic}: {reason}"
    wrong = len(found) + said.undecodable.total()
    yield "found", counted(wrong, "thing") + " wrong" if wrong else "nothing wrong"


def responses_json(mesh: CollaborationSettings, found: Sequence[Wrong], said: Said) -> dict[str, Any]:
    """Return the facts about queries and responses for programs."""
    return {
        "mesh": mesh.name,
        "run": mesh.run,
        "clean": not found and not said.undecodable,
        "queries": len({message.number for message in said.queries}),
        "answers": said.answers,
        "findings": [message._asdict() for message in found],
        "undecodable": [
            {"topic": topic, "reason": reason, "count": count}
            for (topic, reason), count in sorted(said.undecodable.items())
        ],
    }
