"""Describes a mesh, and what its nodes spend, in words. All commands use these words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from nodes.accounting.guarantee import Ledger
from nodes.accounting.spends import Spend
from nodes.checks import as_text, down_to_digits, rounded_up, up_to_digits
from nodes.privacy.bisr_coefficients import BandMatrix
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.mechanism import Mechanism
from streams.ledger import Promise, Reuse, promises_of
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.mesh import Mesh, MeshNode
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import BudgetSettings, EpsilonSettings, PrivacySettings

if TYPE_CHECKING:
    from streams.status.account import PrivacyAccount  # which loads a broker's clients

_SHOWN = 12


def listed(names: Sequence[str]) -> str:
    """Return the names in a list; of many names only the first few."""
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[: _SHOWN - 1])} and {len(names) - _SHOWN + 1:,} more"


def counted(number: int, thing: str) -> str:
    """Return a number with its noun, as `1 node` or `2,000 nodes`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def speed(rate: float | None) -> str:
    """Return a speed, as `12 rounds/s` or `0.25 rounds/s`; empty if it is unknown."""
    if rate is None:
        return ""
    return f"{rate:,.0f} rounds/s" if rate >= 10 else f"{rate:.2g} rounds/s"


def verb(number: int) -> str:
    """Return `was` or `were`."""
    return "was" if number == 1 else "were"


def headline(mesh: MeshSettings) -> str:
    """Return a description of the mesh in one line."""
    rounds = "no end set" if mesh.rounds is None else counted(mesh.rounds, "round")
    size = counted(mesh.slots.size, "record")
    observed = mesh.loss_dimension
    part = "" if observed == mesh.dimension else f" (the loss sees {observed})"
    return (
        f"{mesh.name}, run {mesh.run}: {counted(len(mesh.nodes), 'node')}, dimension {mesh.dimension}{part}, "
        f"{_losses(mesh)}, {rounds}, {size} a round and node ({mesh.slots.by} slots), {_privacy(mesh)}"
    )


def _losses(mesh: MeshSettings) -> str:
    kinds = list(dict.fromkeys(str(mesh.loss_of(name)) for name in mesh.nodes))
    return f"{kinds[0]} loss" if len(kinds) == 1 else f"losses {' and '.join(kinds)}"


def protection(privacy: PrivacySettings, subject: str | None = None) -> str:
    """Return the mechanism and its epsilon.

    `subject` is what the noise is on, if not gradients or parameters.
    """
    if privacy.mechanism == "none" or privacy.epsilon is None:
        return "no privacy"
    noise = ", simulated noise" if privacy.noise == "simulated" else ""
    delta = "" if privacy.delta is None else f", delta {privacy.delta!r}"
    return (
        f"{privacy.mechanism} on the {subject or privacy.on}{noise}, "
        f"{epsilon_words(privacy.epsilon, delta, privacy.protected)}"
    )


def epsilon_words(epsilon: Fraction | EpsilonSettings, delta: str = "", protected: str = "record") -> str:
    """Return `epsilon 1 a record`, or the total of a schedule."""
    if not isinstance(epsilon, EpsilonSettings):
        return f"epsilon {as_text(epsilon)}{delta} a {protected}"
    rounds = counted(epsilon.rounds, "round")
    return f"epsilon {as_text(epsilon.total)}{delta} of a stream of {rounds}, {epsilon.schedule}"


def promises(promised: Mapping[str, Promise]) -> list[str]:
    """Return the guarantees in sentences. Nodes with equal guarantees share a sentence."""
    alike: dict[tuple[object, str], list[str]] = {}
    for name, promise in promised.items():
        alike.setdefault((promise.guarantee, promise.added), []).append(name)
    return [
        f"{promised[first].sentence}{f' The same holds for {listed(alike_names)}.' if alike_names else ''}"
        for first, *alike_names in alike.values()
    ]


def left_out(file: MeshFile) -> str:
    """Return a line that names the user's code that was not run because it was not allowed here."""
    names = file.unallowed
    options = " ".join(f"--code {name}" for name in names)
    return f"Left out, as a file may not allow its own code: {listed(names)}. To run it: {options}"


def shared(file: AnyFile) -> list[str]:
    """Return a line on each group of nodes that may share records: a record's epsilon in all their data."""
    return [
        added for added in dict.fromkeys(promise.added for promise in promises_of(file).values()) if added
    ]


def withheld(file: MeshFile) -> list[str]:
    """Return a line on each group of nodes here whose sources keep back the same share of their records."""
    groups: dict[float, list[str]] = {}
    for name, part in file.nodes.items():
        share = getattr(part.source, "keep_back", None)
        if share is not None:
            groups.setdefault(share, []).append(name)
    use = "nothing is learnt from them, and they score the closing decision, for their owner alone"
    return [
        f"{100 * share:g} % of the records of {listed(names)} are kept back: {use}"
        for share, names in groups.items()
    ]


def _privacy(mesh: MeshSettings) -> str:
    subject = noisy_subject(mesh)
    kinds = list(dict.fromkeys(protection(mesh.privacy_of(name), subject) for name in mesh.nodes))
    return kinds[0] if len(kinds) == 1 else f"{len(kinds)} kinds of privacy"


def noisy_subject(mesh: MeshSettings) -> str | None:
    """Return what the mesh's noise is on, for `protection`."""
    return mesh.algorithm.name if mesh.algorithm.alone else _subject(mesh)


_SCALES = {
    "laplace": "noise of scale",
    "gaussian": "noise of standard deviation",
    "gaussian-bisr": "noise of standard deviation",
    "l2-sphere": "randomness of root mean square",
}


def described(node: MeshNode, rounds: int | None) -> str:
    """Return the node's mechanism in a sentence. `rounds` is the planned number of rounds."""
    privacy, mechanism = node.privacy, node.mechanism
    settings = node.mesh.settings
    clip = f"each record's gradient is clipped to {privacy.gradient_bound:g} in {privacy.norm}"
    if settings.algorithm.alone:
        size = f"{settings.release_dimension:,} numbers"
        clip = f"{settings.algorithm.name}, {size}, of records that are held within a bound"
    if settings.public_places:
        clip = "sensors' places are public"
    if mechanism.epsilon is None:
        return f"{mechanism.name}; {clip}; no noise"
    calibration = f", {privacy.calibration} calibration" if privacy.calibration is not None else ""
    noise_details = _less_noise(mechanism) if isinstance(mechanism, L2Sphere) else ""
    noise_details = _correlated(mechanism.band.matrix) if mechanism.band is not None else noise_details
    noise = _noise(node, mechanism, rounds)
    subject = _subject(settings) or privacy.on
    return f"{privacy.mechanism} on the {subject}{calibration}; {clip}; {noise}{noise_details}"


def _subject(mesh: MeshSettings) -> str | None:
    """Return what the noise is on, if not gradients or parameters."""
    if mesh.public_places:
        return "sign of a residual"
    return "sums" if mesh.algorithm.alone else None


def _noise(node: MeshNode, mechanism: Mechanism, rounds: int | None) -> str:
    privacy = node.privacy
    first, last = mechanism.noise_scale(1), mechanism.noise_scale(rounds or 1)
    scale = f"{first:.4g}" if first == last else f"{first:.4g} in round 1, {last:.4g} in round {rounds:,}"
    quantity = "the round's mean gradient" if privacy.on == "gradient" else "the parameters"
    if node.mesh.settings.algorithm.alone:
        quantity = "the round's sum over its size"
    if node.mesh.settings.public_places:
        quantity = "the round's sign"
    kind = "simulated" if mechanism.simulated else "exact"
    axes = "" if node.mesh.settings.public_places else "each coordinate of "
    return f"{kind} {_SCALES[privacy.mechanism]} {scale} on {axes}{quantity}"


def _less_noise(mechanism: L2Sphere) -> str:
    """Return when `laplace` has less noise.

    Its L1 bound sqrt(d) theta clips no gradient of an L2 norm up to theta.
    """
    if mechanism.dimension == 1 or mechanism.batch_size <= mechanism.laplace_is_better_above:
        return ""
    bound = mechanism.theta * mechanism.dimension**0.5
    above = f"{mechanism.laplace_is_better_above:,.0f} records"
    return (
        f"; laplace with the same L2 bound would have less noise (slots of more than {above}): "
        f"mechanism laplace, gradient_bound {bound:.6g} in l1"
    )


def _correlated(matrix: BandMatrix) -> str:
    """Return the use of correlated noise: how much noise remains in the sum of many rounds' gradients."""
    if matrix.bands == 1:
        return ""
    return (
        f", correlated over {counted(matrix.bands, 'round')}: over many rounds it adds up to "
        f"{matrix.norm / matrix.gain:.2g} times what gaussian's would; the node's journal holds the last "
        f"{counted(matrix.bands - 1, 'draw')}, which are secret"
    )


def geometry(mesh: Mesh) -> str | None:
    """Return how much sensors' distances tell of the direction of which they tell least; None: not known."""
    if not mesh.settings.public_places:
        return None
    from nodes.following import WEAK, Following, weakest_direction  # noqa: PLC0415 # few meshes follow so

    algorithm = mesh.algorithm
    if not isinstance(algorithm, Following):
        return None
    least, place = weakest_direction(algorithm)
    corner = ", ".join(f"{x:.3g}" for x in place)
    best = f"{1 / mesh.settings.loss_dimension:.2g} at best"
    text = f"at ({corner}) distances tell least: the mean of u u' has the eigenvalue {least:.2g} ({best})"
    return f"{text}; a step along a gradient would hardly follow a target there" if least < WEAK else text


# Describes spending: epsilon, budgets and the last learning round.

_THEN = {
    "relay": "it relays: it averages and passes on, and learns from no record any more",
    "leave": "it leaves the mesh",
}


def spending(node: MeshNode, rounds: int | None) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about a node's spending in `rounds` rounds; nothing if its records are not
    protected.
    """
    privacy, ledger, promised = node.privacy, node.ledger, node.guarantee
    if ledger.epsilon is not None and promised.epsilon is not None:
        of = "of one record, however long the run (event level)"
        if promised.unit is not None:
            of = f"of one {promised.unit.column}, in {promised.unit.span}"
        yield "epsilon", _epsilon(ledger, f"{as_text(promised.epsilon)} {of}", rounds)
        yield "learning", _learning(ledger, privacy, rounds)


def spent(epsilon: float) -> str:
    """Return a stream-level epsilon in words."""
    return "none" if math.isinf(epsilon) else f"{up_to_digits(epsilon):,.6g}"


def learns_no_more(last: int, unused: int, *, exactly: bool) -> str:
    """Return since when a node learns no more, and how much of its budget is left."""
    if not unused:
        return f"learns no more since round {last:,}"
    rounds = f"{'' if exactly else 'at least '}{counted(unused, 'round')}"
    return f"learns no more since round {last:,}; {rounds} of its budget {verb(unused)} not used"


def at_delta(delta: float) -> str:
    """Return ` at delta = 1e-06`; empty for a pure guarantee."""
    return f" at delta = {delta!r}" if delta else ""


def _epsilon(ledger: Ledger, per_record: str, rounds: int | None) -> str:
    if ledger.composition is None:
        return per_record
    composition = f"(stream level, {ledger.composition.words}{at_delta(ledger.delta)})"
    if rounds is None:
        spent = f"{up_to_digits(ledger.spent(1, 1)):,.6g}"
        return f"{per_record}; the whole stream of a node costs {spent} in one round {composition}"
    charged = min(rounds, ledger.last_learning_round or rounds)
    spent = f"{up_to_digits(ledger.spent(charged, rounds)):,.6g}"
    return f"{per_record}; {spent} of a node's whole stream after {counted(rounds, 'round')} {composition}"


def _learning(ledger: Ledger, privacy: PrivacySettings, rounds: int | None) -> str:
    last = ledger.last_learning_round
    if last is None:
        return "in every round: there is no budget"
    if privacy.budget is None and not isinstance(privacy.epsilon, EpsilonSettings):
        return f"in {counted(last, 'round')}, for which its units are bounded"
    limit = _limit(ledger, privacy, last)
    if rounds is not None and rounds <= last:
        return f"in every round: {limit} pays for {counted(last, 'round')}"
    return f"up to round {last:,}, when {limit} is spent; then {_THEN[privacy.after_budget]}"


def _limit(ledger: Ledger, privacy: PrivacySettings, last: int) -> str:
    """Return the limit that ends the learning: the total of a schedule, or the budget."""
    if isinstance(privacy.epsilon, EpsilonSettings) and last == ledger.rounds:
        return f"the total of {float(privacy.epsilon.total):g}"
    if isinstance(privacy.budget, BudgetSettings):
        return f"the budget of {float(privacy.budget.epsilon):g} at delta {privacy.budget.delta:g}"
    return f"the budget of {float(privacy.budget or 0):g}"


def account_facts(account: "PrivacyAccount", known: Reuse | None = None) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of one account, and of the spending of all runs on the same data."""
    source = "" if account.source == "journal" else _BY_PLANS
    yield (
        "node",
        f"{account.node}: {counted(account.charged, 'round')} charged{source}, {account.stepped:,} stepped",
    )
    if not account.protected or account.epsilon is None:
        yield "spent", "everything: nothing is protected"
    else:
        level = "(event level)" if account.of == "record" else "(all its records)"
        yield (
            account.of,
            f"epsilon {_up(account.epsilon)}{at_delta(account.delta)} of one {account.of} {level}",
        )
        yield "spent", f"{_stream(account.spent, account.stream_delta)} (stream level, {account.composition})"
        yield "left", _left(account)
    if known is not None and known.earlier:
        for spend in known.earlier:
            yield "earlier", _earlier(spend, known.label(spend))
        total = known.total
        stream = None if total.stream_epsilon is None else rounded_up(total.stream_epsilon)
        yield "all runs", f"Together they cost {_stream(stream, total.stream_delta)}."
    yield "guarantee", account.guarantee


_BY_PLANS = (
    " in this run at most (by the plans that name it, also those ahead of it, and by this file's settings; "
    "if it was started with --spent, that many more)"
)


def _up(epsilon: float) -> str:
    return f"{up_to_digits(epsilon):,.6g}"


def _stream(epsilon: float | None, delta: float) -> str:
    if epsilon is None:
        return "more of the whole stream than is known"
    return f"epsilon {_up(epsilon)}{at_delta(delta)} of the whole stream"


def _left(account: "PrivacyAccount") -> str:
    if account.last_learning_round is None or account.rounds_left is None:
        return "there is no budget to run out"
    rounds = f"{counted(account.rounds_left, 'round')}, up to round {account.last_learning_round:,}"
    if account.relaying:
        rounds = f"it {_no_more(account, account.last_learning_round)}"
    if account.budget is None or account.left is None:
        return rounds
    caveat = "at most, as an earlier life of the run may have charged more, " if account.at_most else ""
    return f"{caveat}{down_to_digits(account.left):,.6g} of the budget of {account.budget:,.6g}: {rounds}"


def _no_more(account: "PrivacyAccount", last: int) -> str:
    if account.stepped < last:  # the charges before this journal
        return "learns no more"
    return learns_no_more(last, account.rounds_unused or 0, exactly=account.source == "journal")


def _earlier(spend: Spend, label: str) -> str:
    least = "at least " if spend.open else ""
    name = f"run {label}"
    if spend.epsilon is None:
        return f"{name}: nothing is known to have been protected"
    charged = f"{least}{counted(spend.charged, 'round')} charged"
    bounded = math.isfinite(spend.stream_epsilon)
    stream = f"{least}{_up(spend.stream_epsilon)} of the stream" if bounded else "unknown for the stream"
    return f"{name}: {charged}; epsilon {_up(float(spend.epsilon))} of a {spend.unit or 'record'}, {stream}"
