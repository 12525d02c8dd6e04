"""`mirrormesh tune`: proposes a clip, a step, a slot size and a mechanism from a public pilot."""

import math
from collections.abc import Callable
from statistics import fmean
from textwrap import indent
from typing import Annotated

import typer
from rich.console import Console

from nodes.accounting.calibration import LEAST_DELTA
from streams.cli.command_line import CodeOption, MeshArgument, PilotOption, cautioned
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, load
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import MechanismName
from streams.terminal.report import progress_bar, say, table
from streams.terminal.text import counted, left_out, noisy_subject, protection
from streams.tools.tuning.pilot import (
    AloneScore,
    Pilot,
    Resampled,
    cross_validated,
    from_file,
    labelled,
    labels_of,
    made_up_like,
)
from streams.tools.tuning.trials import (
    MOST,
    PURE,
    WITH_DELTA,
    Candidate,
    Measured,
    Search,
    Setting,
    Trials,
    block,
    even_sizes,
    search,
    settled,
    tilted,
    with_mechanism,
)

PUBLIC = (
    "THE PILOT MUST BE PUBLIC. What is proposed is a function of it without any noise: never tune on records "
    "that the mesh is to protect, nor on ones like them that somebody wants kept secret."
)
SHOWN = 12
LEAST_RUNS = 8
"""The least number of runs by which settings are compared."""
PILOT_ALONE = "the pilot alone"
NOTHING = 1
"""The exit code if nothing is better than guessing."""


def tune(
    mesh: MeshArgument,
    *,
    pilot: PilotOption = None,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="Use random records instead.")] = False,
    records: Annotated[
        int | None,
        typer.Option(
            "--records", min=1, metavar="N", help="Records per node to learn from, in place of the file's."
        ),
    ] = None,
    slot_size: Annotated[
        bool, typer.Option("--slot-size", help="Try other slot sizes too, which fit the records.")
    ] = False,
    by_auc: Annotated[
        bool, typer.Option("--auc", help="Optimise the last decisions' AUC on the pilot, not the mean loss.")
    ] = False,
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Try the other mechanisms too, at the same epsilon.")
    ] = False,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", metavar="D", help="Try the Gaussian mechanisms at that delta, if the file has none."
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", min=LEAST_RUNS, metavar="N", help="Runs of each trial.")
    ] = LEAST_RUNS,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="The seed of pilot, noise and schedule.")
    ] = 1,
    code: CodeOption = None,
) -> None:
    """Propose clip, step, slot size, mechanism from public records.

    By default it proposes gradient_bound and step size, and with a motion model the gains; options add the
    others.

    The pilot must be PUBLIC or random records, as the proposal reveals something of them. The pilot is
    sampled with replacement to as many records as the mesh is to learn from. Settings are tried on this
    sample under the mesh file's mechanism with simulated noise. The search starts from the mesh file's
    setting. It changes settings by factors of four, then of two, until no neighbouring setting has a lower
    mean loss (or, with --auc, a better ranking). A setting counts as better only if it is so by more than two
    standard errors of the runs' differences. With --mechanisms the search continues from its result under
    each other mechanism. A mechanism with a delta promises less at the same epsilon.

    The choice is confirmed in 16 runs of their own. If it is not better there, the mesh file's own setting is
    proposed. If that is not better than guessing, by two standard errors, one sentence says so, nothing is
    proposed, and the exit code is 1. A labelled pilot from a file has a row of its own: what a plain model of
    the pilot reaches alone. If that is as good, a mesh brings nothing to those who have the pilot.

    Prints the settings tried, and the whole blocks for the mesh file. Nothing is tuned on the nodes' own
    records. A pilot is refused if more than half of its distinct records are among the nodes' local records,
    whatever their order and the kind of the file. A loss or source of your own must be allowed by --code.

    \b
    Examples:
      mirrormesh tune mesh.yaml --synthetic
      mirrormesh tune mesh.yaml --pilot public.csv --records 8000 --slot-size
      mirrormesh tune mesh.yaml --pilot public.csv --auc --mechanisms --delta 1e-6
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = cautioned(load(mesh, code=code or ()))
    if file.mesh.loss.own is not None:
        file.code.check_loss(file.mesh.loss.own)
    if (pilot is None) == (not synthetic):
        raise UsageError("must have either --pilot FILE, public records, or --synthetic")
    console = Console(highlight=False)
    if not file.mesh.algorithm.steps:
        key = "name" if file.mesh.algorithm.alone else "curvature"
        value = getattr(file.mesh.algorithm, key)
        raise file.refuse(("mesh", "algorithm", key), "has no clip, step or size to tune", value)
    if file.unallowed:
        say(console, left_out(file))
    source = made_up_like(file, seed, "--synthetic") if pilot is None else from_file(file, pilot)
    settings = file.mesh
    total = records or (settings.rounds or 1000) * settings.slots.size
    if delta is not None and not LEAST_DELTA <= delta < 1:
        raise UsageError(f"--delta is {delta:g}: must be a number from {LEAST_DELTA:g} to below 1")
    names = compared(settings, delta) if mechanisms else (settings.privacy.mechanism,)
    rows = labelled(file, source) if by_auc else None
    say(console, PUBLIC, "bold red")

    def trials_of(mesh: MeshSettings) -> Trials:
        return Trials(mesh, source, total, runs, seed, rows, file.code)

    sizes = sizes_to_try(settings, total) if slot_size else None
    with progress_bar(MOST * len(names)) as advance:
        result = search(settings, names, delta, trials_of, sizes=sizes, report=advance)
    result, fresh = settled(
        result,
        Candidate(settings.privacy.mechanism, Setting.of(settings)),
        lambda name: trials_of(with_mechanism(settings, name, delta)),
    )
    pilot_score = None if pilot is None else pilot_alone(file, source)
    count = f"{counted(len(result.tried), 'setting')} tried, {counted(total, 'record')} a node"
    if rows is None:
        report(console, file, result, "mean loss", f"{count}; the least mean loss first", pilot_score)
    else:
        share = f"by chance the AUPRC is {(rows[1] > 0).mean():.4f}"
        report(console, file, result, "AUC", f"{count}; the largest AUC first; {share}", pilot_score)
    if not fresh.better_than_guessing:
        say(console, no_better(file, total, fresh, by_auc=by_auc), "bold yellow")
        raise typer.Exit(NOTHING)
    better = f"better than guessing ({guessing(fresh, by_auc=by_auc)})"
    say(console, f"Verdict of the proposal: {better}: {in_fresh_runs(fresh, by_auc=by_auc)}.", "bold")
    if small := too_small(settings, result.proposed.setting.size, total):
        say(console, small, "bold yellow")
    say(console, "For the mesh file:")
    typer.echo(indent(block(file, result.proposed, delta, total), "  "), nl=False)


def sizes_to_try(mesh: MeshSettings, records: int) -> Callable[[int], int]:
    """Return the slot size to try beside the given one. With slots by count it is one that fits."""
    return even_sizes(records) if mesh.slots.by == "count" else lambda size: size


def pilot_alone(file: MeshFile, pilot: Pilot) -> AloneScore | None:
    """Return the result of a plain model of the pilot's records on other pilot records; None
    without labels.
    """
    kind = labels_of(file.mesh.loss)
    if kind is None or not isinstance(pilot, Resampled):
        return None
    return cross_validated(file.resolved.loss, kind, pilot.features, pilot.labels)


def in_fresh_runs(fresh: Measured, *, by_auc: bool) -> str:
    """Return the result of the runs that confirm a proposal, with twice its standard error."""
    value, name = (1 - fresh.loss, "AUC") if by_auc else (fresh.loss, "mean loss")
    return f"{name} {value:.4g} +- {2 * fresh.spread:.2g} in {counted(len(fresh.runs), 'run')} of its own"


def guessing(fresh: Measured, *, by_auc: bool) -> str:
    """Return what guessing reaches in those runs."""
    return "0.5" if by_auc else f"{fmean(fresh.guess):.4g}" if fresh.guess else "unknown"


def no_better(file: MeshFile, records: int, fresh: Measured, *, by_auc: bool) -> str:
    """Return the sentence that nothing is better than guessing."""
    guess, protected = guessing(fresh, by_auc=by_auc), protection(file.mesh.privacy, noisy_subject(file.mesh))
    return (
        f"Nothing better than guessing ({guess}) was tried, with {counted(records, 'record')} a node and "
        f"{protected}: the best has {in_fresh_runs(fresh, by_auc=by_auc)}."
    )


def too_small(mesh: MeshSettings, size: int, total: int) -> str:
    """Return a warning if slots by time of that size leave out records; empty if not.

    A node's `total` records lie in `rounds` periods. Without `rounds` the number per period is not known.
    """
    if mesh.slots.by == "count" or mesh.rounds is None or size * mesh.rounds >= total:
        return ""
    period = total / mesh.rounds
    return (
        f"Slots by time of {size:,} leave out {100 - 100 * size / period:.0f} % of the records: a period has "
        f"about {period:,.0f} of a node ({total:,} in {counted(mesh.rounds, 'round')})."
    )


def compared(mesh: MeshSettings, delta: float | None) -> tuple[MechanismName, ...]:
    """Return the mechanisms to compare, the mesh's own first. Raises UsageError if it has none."""
    current = mesh.privacy.mechanism
    if current == "none":
        raise UsageError("--mechanisms: the mesh file's mechanism is none: must be one with an epsilon")
    alternatives = PURE if mesh.privacy.delta is None and delta is None else PURE + WITH_DELTA
    return (current, *(name for name in alternatives if name != current))


def report(
    console: Console, file: MeshFile, found: Search, measure: str, title: str, alone: AloneScore | None
) -> None:
    """Print what was tried, what the pilot reaches alone, what is proposed, and why."""
    start = Candidate(file.mesh.privacy.mechanism, Setting.of(file.mesh))
    gains = file.mesh.algorithm.gains
    ranked = sorted(found.tried, key=lambda candidate: found.tried[candidate].loss)
    marked, is_comparison = {*found.best, start}, len(found.best) > 1
    names: dict[str, tuple[str, ...]] = {
        candidate.mechanism: (candidate.mechanism,) * is_comparison for candidate in found.best
    }
    rows = [
        (
            _marks(candidate, found.proposed, start),
            *names[candidate.mechanism],
            *_figures(candidate.setting, found.tried[candidate], measure, gains),
        )
        for k, candidate in enumerate(ranked)
        if k < SHOWN or candidate in marked
    ]
    columns = (measure, "AUPRC") if measure == "AUC" else (measure,)
    tilts = () if gains is None else ("gains",)
    settings = ("gradient\nbound", "a of\nstep_size", *tilts, "slot\nsize")
    headings = ("", *("mechanism",) * is_comparison, *settings, *columns)
    say(console, f"{title}.", "bold")
    if alone is not None:
        blank = len(headings) - 1 - len(columns)
        rows.append((PILOT_ALONE, *("",) * blank, *_alone_figures(alone, measure)))
    console.print(table(headings, rows))
    if found.left_out:
        left_out = ", ".join(found.left_out)
        say(console, f"Not tried: {left_out}: not with the mesh file's epsilon or budget.")
    near = ", of the first mechanism that gets so near" if is_comparison else ""
    say(
        console,
        f"Proposed: the largest clip within 2 % of the best{near}; the file's own, if that is no better.",
    )


def _marks(one: Candidate, proposed: Candidate, start: Candidate) -> str:
    return ", ".join(name for name, of in (("proposed", proposed), ("the file's", start)) if one == of)


def _alone_figures(alone: AloneScore, measure: str) -> tuple[str, ...]:
    values = (alone.auc, alone.auprc) if measure == "AUC" else (alone.loss,)
    digits = ".4f" if measure == "AUC" else ".5g"
    return tuple("" if value is None else f"{value:{digits}}" for value in values)


def _figures(
    setting: Setting, measured: Measured, measure: str, gains: tuple[float, ...] | None
) -> tuple[str, ...]:
    tilted_gains = tilted(gains, setting.tilt)
    gain_cells = () if tilted_gains is None else (", ".join(f"{gain:.4g}" for gain in tilted_gains),)
    cells = (f"{setting.gradient_bound:.4g}", f"{setting.step:.4g}", *gain_cells, f"{setting.size:,}")
    if not math.isfinite(measured.loss):
        return (*cells, *("impossible", "")[: 2 if measure == "AUC" else 1])
    error = f" +- {2 * measured.spread:.2g}" if len(measured.runs) > 1 else ""
    if measured.auprc is None:
        return (*cells, f"{measured.loss:.5g}{error}")
    return (*cells, f"{1 - measured.loss:.4f}{error}", f"{measured.auprc:.4f}")
