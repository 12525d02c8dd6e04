"""The shared part of a collaboration: a learner queries owners of private, static sets of records.

Public, the same for the learner and every owner (Wu, Farokhi, Smith, Kaafar 2020).
"""

import hashlib
import json
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from streams.mesh.settings.algorithm import ConstraintSettings, LossSettings
from streams.mesh.settings.base import (
    Address,
    Choice,
    Count,
    Exact,
    MeshName,
    Name,
    Positive,
    Seconds,
    Settings,
    address_text,
    refusal,
)
from streams.mesh.settings.brokers import OwnerBrokersSettings
from streams.mesh.settings.keys import PublicKey
from streams.mesh.settings.node import LIVENESS, HeldOutSettings
from streams.mesh.settings.privacy import Delta
from streams.mesh.settings.schema import SchemaSettings

NOT_AGREED: dict[str, Any] = {
    "name": True,
    "run": True,
    "response_timeout": True,
    "learner_key": True,
    "owners": {"__all__": {"key"}},
}
"""The settings that are not in the digest: a key may be replaced."""


def _by_records(value: object) -> bool:
    return value == "records"  # left out of the digest, which stays as it was before this key


def _of_every_record(value: object) -> object:
    if isinstance(value, str) and value in {"l2-sphere", "gaussian-bisr"}:
        raise refusal(
            "needs each record in one release alone, and every query uses every record: "
            "must be laplace or gaussian"
        )
    return value


class OwnerTerms(Settings):
    """The public terms of one owner."""

    records: int = Field(ge=2)
    """n_l: how many records its set holds. It is public, and so is that the set does not change."""
    epsilon: Exact
    """epsilon_l: what all answers together may spend on a record, in all sets that it is in."""
    mechanism: Annotated[Literal["laplace", "gaussian"], BeforeValidator(_of_every_record)] = "laplace"
    """The noise on its answers. `gaussian` needs `delta`, and far less noise where there are many queries."""
    delta: Delta | None = None
    """delta_l, beside epsilon_l. Not given for laplace."""
    key: PublicKey | None = None
    """The owner's public key for signatures (`mirrormesh key` makes a pair). Needed with `signatures:
    required`. Not given: it signs nothing."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.mechanism == "gaussian" and self.delta is None:
            raise refusal("missing: mechanism gaussian needs a number above 0 and below 1", "delta")
        if self.mechanism == "laplace" and self.delta is not None:
            raise refusal("is for mechanism gaussian, not for laplace", "delta")
        return self


class StepSettings(Settings):
    """The step of theta after each query."""

    name: Literal["averaged", "strongly-convex"]
    """`averaged`: steps of c_1/sqrt(k) within the constraint, and their average is the model (Algorithm 2).
    `strongly-convex`: steps of rho/(T^2 k), and the last theta is the model (Algorithm 1)."""
    step: Positive | None = None
    """c_1, for averaged, which needs it. Not given for strongly-convex."""
    rho: Positive | None = None
    """rho, for strongly-convex, which needs it. Not given for averaged."""

    @model_validator(mode="after")
    def _of_the_name(self) -> Self:
        needed, refused = ("step", "rho") if self.name == "averaged" else ("rho", "step")
        if getattr(self, needed) is None:
            raise refusal(f"missing: {self.name} needs a number above 0", needed)
        if getattr(self, refused) is not None:
            raise refusal(f"goes with the other algorithm, not with {self.name}", refused)
        return self


class NoiseSettings(Choice):
    """The source of the owners' noise."""

    words: ClassVar[tuple[str, ...]] = ("exact",)

    exact: bool = False
    """From the operating system."""
    simulated: Annotated[int, Field(ge=0)] | None = None
    """From that seed, so that runs can be repeated; it protects nothing."""


class CollaborationSettings(Settings):
    """The settings of a collaboration, which all parties share. They are public."""

    kind: Literal["collaboration"]
    """A learner and owners. Not given: a mesh of nodes."""
    name: MeshName
    """The collaboration's name, a part of all its topics' names. It is none of their kinds: data,
    data-deadletter, predictions, decisions, spends."""
    run: Name
    """The name of one execution. A new run needs a new name, and what is spent adds up over runs."""
    learner: Name
    """The learner, who asks."""
    owners: Annotated[dict[Name, OwnerTerms], Field(min_length=1, max_length=4096)]
    """The owners, who answer: how many records each has, and what it spends."""
    dimension: int = Field(ge=1, le=1 << 24)
    """d, the number of features."""
    loss: LossSettings
    """g_2, of one record: a loss of the score <theta, a>."""
    regulariser: float = Field(0.0, ge=0)
    """eta of g_1 = eta/2 ||theta||^2, which is added to the mean loss, and public."""
    constraint: ConstraintSettings | None = None
    """The set that theta stays in, for averaged, which needs it. Not given for strongly-convex."""
    algorithm: StepSettings
    """The steps of theta."""
    queries: Count
    """T. Each owner answers no more, and its epsilon is for all of them."""
    gradient_bound: Positive
    """Xi: each record's gradient is clipped to it, in L1 for laplace, in L2 for gaussian."""
    sharing: Count = 1
    """kappa, the largest number of owners' sets that hold one record. It is not checked. Each owner spends
    its epsilon/kappa."""
    weights: Literal["records", "noise"] = Field("records", exclude_if=_by_records)
    """Each owner's weight in the mean of the answers. `records`: its share of the records, so the model is
    that of all records. `noise`: in proportion to Xi^2 over the variance of its answer, of noise and of few
    records: the least noise, and a model that is hardly of owners with few records or a small epsilon."""
    response_timeout: Seconds = 30.0
    """Seconds after which owners that have not answered are left out of a query. `none`: they never are."""
    noise: NoiseSettings = NoiseSettings(exact=True)
    """The noise on the answers."""
    signatures: Literal["none", "required"] = "none"
    """`required`: queries, responses and heartbeats are signed, and others are refused. The learner needs
    `learner_key`, each owner a `key`, and each process a `signing_key` for its broker."""
    learner_key: PublicKey | None = None
    """The learner's public key for signatures. Needed with `signatures: required`. Not given: it signs
    nothing."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.loss.takes_sparse:
            raise refusal(
                "must be a loss of one score <theta, a>, such as squared, hinge or logistic", "loss"
            )
        if self.learner in self.owners:
            raise refusal(f"{self.learner} is also an owner: must be another name", "learner")
        if self.sharing > len(self.owners):
            raise refusal(f"must be at most {len(self.owners)}, the number of owners", "sharing")
        if self.algorithm.name == "averaged" and self.constraint is None:
            raise refusal("missing: averaged needs one, such as {l2-ball: 10}", "constraint")
        if self.algorithm.name == "strongly-convex" and self.constraint is not None:
            raise refusal("goes with averaged: strongly-convex has none", "constraint")
        if self.constraint is not None and self.constraint.reach is not None:
            raise refusal("reach is for a motion model: must be another set", "constraint")
        self._check_keys()
        return self

    def _check_keys(self) -> None:
        if self.signatures == "none":
            return
        text = "missing: signatures are required, and {} has none (mirrormesh key makes one)"
        if self.learner_key is None:
            raise refusal(text.format(self.learner), "learner_key")
        for name, terms in self.owners.items():
            if terms.key is None:
                raise refusal(text.format(name), "owners", name, "key")

    @property
    def loss_dimension(self) -> int:
        """The number of coordinates that the loss sees: all."""
        return self.dimension

    @property
    def public_places(self) -> bool:
        """Whether sensors' positions are settings: never."""
        return False

    def loss_of(self, _: str) -> LossSettings:
        """Return the loss of an owner: all have the same."""
        return self.loss

    @property
    def by_time(self) -> bool:
        """Whether records need a time: a set has no order."""
        return False

    @property
    def agreed_text(self) -> str:
        """The settings that all must share, as canonical JSON."""
        unsigned = {"signatures": True} if self.signatures == "none" else {}
        agreed = self.model_dump(mode="json", exclude=NOT_AGREED | unsigned)
        return json.dumps(agreed, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def digest(self) -> bytes:
        """Return 16 bytes of the SHA-256 of `agreed_text`."""
        return hashlib.sha256(self.agreed_text.encode()).digest()[:16]

    @property
    def features(self) -> SchemaSettings | None:
        """The schema that all share: none, as each owner has its own."""
        return None

    def source_text(self, source: Settings) -> str:
        """Return what makes gradients of a source's bytes, as canonical JSON: no path, as files may move."""
        shared: dict[str, Any] = self.model_dump(mode="json", include={"dimension", "loss"})
        source_settings = source.model_dump(mode="json", by_alias=True, exclude={"path"})
        return json.dumps(
            shared | {"source": source_settings}, sort_keys=True, separators=(",", ":"), allow_nan=False
        )


class OwnerSettings(Settings):
    """An owner's own part. Nobody else sees it. It may be the path of a YAML file that holds it."""

    source: HeldOutSettings | None = None
    """The source of its records: a file, or without `path` the records of its data broker. Not given: the
    owner cannot be run here."""
    brokers: OwnerBrokersSettings | None = None
    """The owner's own brokers. Not given: those of the file."""
    private_endpoint: Annotated[Address | None, BeforeValidator(address_text)] = None
    """The port that serves its private metrics. Not given: they are not served."""
    liveness: Annotated[float, Field(gt=0)] = LIVENESS
    """Seconds for which the process's loops may stand still before `/livez` at its private endpoint fails and
    systemd's watchdog is not fed."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.source is not None and self.source.shuffle:
            raise refusal("every query uses every record: must be false", "source", "shuffle")
        if self.source is not None and self.source.path == "-":
            raise refusal("every query reads the set: must be a file, not standard input", "source", "path")
        return self
