"""What is known of the losses of a mesh's nodes, all together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodes.bounds.constants import convex, curvature, smooth_apart
from nodes.losses.losses import Loss
from streams.mesh.mesh import Mesh


@dataclass(frozen=True, slots=True)
class LossFacts:
    """The facts about `losses`, each once, by their names in words.

    None: the user's own, of which nothing is known. It is not made, as that would run its code.
    """

    losses: Mapping[str, Loss | None]

    @classmethod
    def of(cls, mesh: Mesh) -> "LossFacts":
        """Return the facts about the losses of a mesh's nodes."""
        settings = mesh.settings
        named = {str(settings.loss_of(name)): name for name in reversed(settings.nodes)}
        return cls({words: _plain(mesh, name) for words, name in reversed(named.items())})

    @property
    def convex(self) -> bool | None:
        """Whether all are convex; None: of one it is not known."""
        answers = {convex(loss) for loss in self.losses.values()}
        return None if None in answers else all(answers)

    @property
    def curvature(self) -> float | None:
        """The largest curvature; None: one has none, or it is not known."""
        curvatures = [curvature(loss) for loss in self.losses.values()]
        finite = [value for value in curvatures if value is not None]
        return max(finite) if len(finite) == len(curvatures) else None

    @property
    def smooth_apart(self) -> bool:
        """Whether all gradients are Lipschitz with 1 away from the sensors."""
        return all(smooth_apart(loss) for loss in self.losses.values())

    def first(self, fits: Callable[[Loss | None], object]) -> str:
        """Return the name of the first loss that fits; of the first of all if none does."""
        names = (name for name, loss in self.losses.items() if fits(loss))
        return next(names, next(iter(self.losses)))


def _plain(mesh: Mesh, node: str) -> Loss | None:
    return None if mesh.settings.loss_of(node).own is not None else mesh.node(node).loss
