"""What one node does otherwise than the mesh; public."""

from streams.mesh.settings.base import Positive, Settings, refusal
from streams.mesh.settings.budget import Epsilon
from streams.mesh.settings.loss import LossSettings
from streams.mesh.settings.privacy import Bands, Delta, MechanismName, Norm
from streams.mesh.settings.signing import PublicKey


class NodeOverrides(Settings):
    """What one node does otherwise: in privacy, and in what it measures; and its key. All of it is public."""

    mechanism: MechanismName | None = None
    """The node's own mechanism. Not given: that of `privacy`."""
    epsilon: Epsilon | None = None
    """The node's own epsilon. Not given: that of `privacy`."""
    delta: Delta | None = None
    """The node's own delta. Not given: that of `privacy`."""
    bands: Bands | None = None
    """The node's own bands. Not given: that of `privacy`."""
    gradient_bound: Positive | None = None
    """The node's own clip. Not given: that of `privacy`."""
    norm: Norm | None = None
    """The node's own norm. Not given: that of `privacy`."""
    loss: LossSettings | None = None
    """The node's own loss, of the same decision: another kind of sensor. Not given: that of the mesh."""
    key: PublicKey | None = None
    """The public key of what the node signs, as `mirrormesh key` shows it. Not given: it signs nothing."""

    @property
    def overrides(self) -> set[str]:
        """The settings that it has otherwise."""
        return self.model_fields_set - {"key"}


def members(value: object) -> object:
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
