"""The shared part of a mesh file: public, the same for every party."""

import hashlib
import json
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from streams.codec.topics import Layout
from streams.mesh.settings.algorithm import AlgorithmSettings
from streams.mesh.settings.base import Count, Name, Positive, Seconds, Settings, or_none, refusal
from streams.mesh.settings.loss import LossSettings
from streams.mesh.settings.overrides import NodeOverrides, members
from streams.mesh.settings.parties import Party, PartySettings, check_parties, parties
from streams.mesh.settings.privacy import PrivacySettings, SlotSettings, TimeSlots
from streams.mesh.settings.signing import PublicKey
from streams.mesh.settings.target import TargetSettings
from streams.mesh.settings.topology import TopologySettings

AGREED = {"dimension", "algorithm", "loss", "slots", "horizon"}
"""The settings in the digest, beside `privacy`; the rest only where given."""


class MeshSettings(Settings):
    """The settings that all parties share. They are public."""

    name: Name
    """The mesh's name. Topics begin with it."""
    run: Name
    """The name of one execution. A new run needs a new name, and what is spent adds up over runs."""
    nodes: Annotated[
        dict[Name, NodeOverrides], Field(min_length=1, max_length=4096), BeforeValidator(members)
    ]
    """The nodes: a list of names, or a mapping from names to what a node does otherwise, and to
    its public key."""
    dimension: int = Field(ge=1, le=1 << 24)
    """d, the length of a decision: the number of features, for softmax times the number of classes. With
    `dynamics` that of the state, of which the loss sees a part."""
    algorithm: AlgorithmSettings
    """How a decision follows from gradients and neighbours' releases."""
    loss: LossSettings
    """What decisions are to make small."""
    class_weights: Annotated[tuple[Positive, ...] | None, Field(strict=False)] = None
    """The weight of a record by its label: [negative, positive], or a number for each class. For hinge,
    logistic and softmax. Not given: all weigh the same."""
    slots: SlotSettings
    """Which records a round learns from."""
    privacy: PrivacySettings
    """The mechanism between a node's gradients and its releases."""
    topology: TopologySettings
    """Who hears whom."""
    layout: Layout = "edges"
    """Where releases are on the broker: `edges`, in a topic an edge; `outbox`, in a topic a node that all its
    neighbours read. One send a round then, and fewer topics, but no rights for each edge."""
    horizon: int = Field(32, ge=4, le=4096)
    """H, in rounds: the lead of the plans, the window for late releases and the length of a rejoin."""
    round_timeout: Seconds = 5.0
    """Seconds that a node waits for a neighbour's release. `none`: until it comes."""
    silence: Annotated[Annotated[float, Field(ge=0.5)] | None, BeforeValidator(or_none)] = 10.0
    """Seconds without a heartbeat (ten beats) after which a scheduler plans without a node. `none`: never."""
    lag_limit: Seconds = None
    """Seconds, or 8 rounds if they take longer, for which a node that steps may hold the others. Beyond, its
    neighbours go on without its releases, and it is planned without for as long as it held all. `none`: for
    ever. One that beats and does not step may for the longest of this, `silence`, and the waits for its
    records and releases; for ever where one of those is `none`, and in one process."""
    rounds: Annotated[Count | None, BeforeValidator(or_none)] = None
    """The last round. `none`: until stopped."""
    min_members: Count | None = None
    """The fewest nodes for which a round is planned. Not given: all for the first plan, then one."""
    target: TargetSettings = TargetSettings()
    """What made-up sensors measure."""
    seed: int = Field(0, ge=0)
    """For schedules, the order of data and simulated noise, never for exact noise."""
    generation: int = Field(0, ge=0, lt=1 << 32)
    """The number of this file among those of the run. Plans carry it. Other nodes or edges: raise it."""
    parties: dict[Name, PartySettings] = Field(default_factory=dict)
    """Who runs which nodes, and as which user of the mesh broker. Not given, and for nodes that no party
    names: each node is a party of its own name."""

    signatures: Literal["none", "required"] = "none"
    """Whether every release, heartbeat and plan must be signed (Ed25519): `none` or `required`. Then each
    node has a `key` here, each scheduler one in `schedulers`, and each process a `signing_key` for its
    broker."""
    schedulers: dict[Name, PublicKey] = Field(default_factory=dict)
    """The public keys of the schedulers, by names of your choice. Not given: none, as nothing is signed."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.min_members is not None and self.min_members > len(self.nodes):
            raise refusal(f"must be at most {len(self.nodes)}, the number of nodes", "min_members")
        check_parties(self.name, self.nodes, self.parties)
        self._check_keys()
        if self.privacy.on == "parameters" and self.slots.size != 1:
            raise refusal("noise on the parameters needs one record a slot: must be 1", "slots", "size")
        self._check_motion()
        differing = [name for name, own in self.nodes.items() if own.loss is not None]
        if self.class_weights is not None and differing:
            raise refusal(f"goes with one loss for all, and node {differing[0]} has its own", "class_weights")
        if self.class_weights is not None and self.loss.labels is None:
            raise refusal(f"goes with loss hinge, logistic or softmax, not with {self.loss}", "class_weights")
        if self.class_weights is not None and len(self.class_weights) != len(self.loss.labels or ()):
            needed = (
                "[negative, positive]" if self.loss.signed else f"{self.loss.softmax} numbers, one a class"
            )
            raise refusal(f"must be {needed}", "class_weights")
        return self

    def _check_motion(self) -> None:
        dynamics = self.algorithm.dynamics
        if dynamics is None:
            return
        if dynamics.dimension != self.dimension:
            raise refusal(
                f"must be {dynamics.dimension}, the dimension of the motion model's state", "dimension"
            )
        if self.privacy.on == "parameters":
            raise refusal("with dynamics noise is on gradients: must be gradient", "privacy", "on")
        if isinstance(self.slots, TimeSlots) and dynamics.period not in {None, self.slots.period}:
            text = f"must be {self.slots.period:g}, the period of the slots"
            raise refusal(text, "algorithm", "dynamics", "period")

    @property
    def loss_dimension(self) -> int:
        """The number of coordinates that the loss sees."""
        seen = self.algorithm.seen
        return self.dimension if seen is None else len(seen)

    def _check_keys(self) -> None:
        if self.signatures == "none":
            return
        for name, node in self.nodes.items():
            if node.key is None:
                text = f"missing: signatures are required, and {name} has none (mirrormesh key makes one)"
                raise refusal(text, "nodes", name, "key")
        if not self.schedulers:
            raise refusal("must name the key of a scheduler, as signatures are required", "schedulers")

    @property
    def all_parties(self) -> tuple[Party, ...]:
        """All parties, with the users of their nodes."""
        return parties(self.nodes, self.parties)

    @property
    def users(self) -> dict[str, str]:
        """The user that each node is on brokers with users."""
        return {node: user for party in self.all_parties for node, user in party.users.items()}

    def privacy_of(self, node: str) -> PrivacySettings:
        """Return the privacy settings of one node, with its overrides."""
        return self.privacy.overridden(self.nodes[node])

    def loss_of(self, node: str) -> LossSettings:
        """Return the loss of one node, or the shared one for a name that is none."""
        own = self.nodes.get(node)
        return self.loss if own is None or own.loss is None else own.loss

    @property
    def shift(self) -> float:
        """The seconds by which the time of every record of a file is moved; 0 with slots by count."""
        return self.slots.shift if isinstance(self.slots, TimeSlots) else 0.0

    @property
    def agreed(self) -> dict[str, Any]:
        """The settings that all nodes must share, not membership, a node's own settings, or the schedule."""
        given = set() if self.class_weights is None else {"class_weights"}
        given |= set() if self.layout == "edges" else {"layout"}
        given |= set() if self.signatures == "none" else {"signatures"}
        return self.model_dump(mode="json", include=AGREED | {"privacy"} | given)

    @property
    def agreed_text(self) -> str:
        """`agreed` as canonical JSON."""
        return json.dumps(self.agreed, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def digest(self) -> bytes:
        """Return 16 bytes of the SHA-256 of `agreed_text`."""
        return hashlib.sha256(self.agreed_text.encode()).digest()[:16]
