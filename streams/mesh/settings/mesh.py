"""The shared part of a mesh file: public, the same for every party."""

import hashlib
import json
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from streams.mesh.settings.algorithm import AlgorithmSettings
from streams.mesh.settings.base import Count, Name, Positive, Seconds, Settings, or_none, refusal
from streams.mesh.settings.loss import LossSettings
from streams.mesh.settings.privacy import PrivacyOverrides, PrivacySettings, SlotSettings
from streams.mesh.settings.topology import TopologySettings

AGREED = {"dimension", "algorithm", "loss", "slots", "horizon"}
"""The settings in the digest, beside `privacy`."""


def _members(value: object) -> object:
    """Read a list of names as nodes without overrides."""
    if isinstance(value, list):
        repeated = [name for k, name in enumerate(value) if name in value[:k]]
        if repeated:
            raise refusal(f"{repeated[0]} is named twice: every node once")
        if not all(isinstance(name, str) for name in value):
            raise refusal("must be a list of names, or a mapping from names to what a node does otherwise")
        return {name: {} for name in value}
    if isinstance(value, dict):
        return {name: {} if own is None else own for name, own in value.items()}
    raise refusal("must be a list of names, or a mapping from names to what a node does otherwise")


class MeshSettings(Settings):
    """The settings that all parties share. `run` names one execution; a new one needs a new name.

    `horizon` (H, in rounds) is the lead of the plans, the window for late releases and the length of a
    rejoin. `round_timeout`: seconds that a node waits for a neighbour's release. `silence`: seconds without a
    heartbeat (ten beats) after which a scheduler plans without a node. `rounds` none: until stopped. `seed`
    is for schedules, data order and simulated noise, never for exact noise. `class_weights`: the weight of a
    record by its label, [negative, positive] or one number per class.
    """

    name: Name
    run: Name
    nodes: Annotated[
        dict[Name, PrivacyOverrides], Field(min_length=1, max_length=4096), BeforeValidator(_members)
    ]
    dimension: int = Field(ge=1, le=1 << 24)
    algorithm: AlgorithmSettings
    loss: LossSettings
    class_weights: Annotated[tuple[Positive, ...] | None, Field(strict=False)] = None
    slots: SlotSettings
    privacy: PrivacySettings
    topology: TopologySettings
    horizon: int = Field(32, ge=4, le=4096)
    round_timeout: Seconds = 5.0
    silence: Annotated[Annotated[float, Field(ge=0.5)] | None, BeforeValidator(or_none)] = 10.0
    rounds: Annotated[Count | None, BeforeValidator(or_none)] = None
    min_members: Count | None = None
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.min_members is not None and self.min_members > len(self.nodes):
            raise refusal(f"must be at most {len(self.nodes)}, the number of nodes", "min_members")
        if self.privacy.on == "parameters" and self.slots.size != 1:
            raise refusal("noise on the parameters needs one record a slot: must be 1", "slots", "size")
        if self.class_weights is not None and self.loss.labels is None:
            raise refusal(f"goes with loss hinge, logistic or softmax, not with {self.loss}", "class_weights")
        if self.class_weights is not None and len(self.class_weights) != len(self.loss.labels or ()):
            needed = (
                "[negative, positive]" if self.loss.signed else f"{self.loss.softmax} numbers, one a class"
            )
            raise refusal(f"must be {needed}", "class_weights")
        return self

    def privacy_of(self, node: str) -> PrivacySettings:
        """Return the privacy settings of one node, with its overrides."""
        return self.privacy.overridden(self.nodes[node])

    @property
    def agreed(self) -> dict[str, Any]:
        """The settings that all nodes must share: those that make a release, not membership or schedule."""
        weighted = set() if self.class_weights is None else {"class_weights"}
        return self.model_dump(mode="json", include=AGREED | {"privacy"} | weighted)

    def digest(self) -> bytes:
        """Return 16 bytes of the SHA-256 of `agreed`, as canonical JSON."""
        text = json.dumps(self.agreed, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).digest()[:16]
