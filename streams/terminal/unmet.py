"""Names the assumptions of a paper's theorem that a mesh does not meet."""

import math
from collections.abc import Iterator

from nodes.bounds.constants import convex, curvature
from streams.mesh.theory import Theory


def unmet(theory: Theory) -> Iterator[str]:
    """Yield each assumption, of the theorem for the mesh's algorithm, that the mesh does not meet."""
    dpdo = theory.mesh.settings.algorithm.name == "dpdo-nc"
    yield from _of_the_loss(theory, dpdo=dpdo)
    yield from _of_the_map(theory, dpdo=dpdo)
    yield from _of_the_steps(theory, dpdo=dpdo)
    yield from _of_the_noise(theory, dpdo=dpdo)
    if not theory.mixes.lazy:
        yield "the lemma on mixing needs a weight of every node on itself"


def _of_the_loss(theory: Theory, *, dpdo: bool) -> Iterator[str]:
    losses = theory.losses
    if theory.convex is None:
        yield "nothing is known of your own loss"
    elif dpdo and losses.curvature is None:
        name = losses.first(lambda loss: curvature(loss) is None)
        yield f"the {name} loss is not smooth {'at its kink' if theory.convex else 'at a sensor'}"
    elif not dpdo and not theory.convex:
        yield f"the {losses.first(lambda loss: not convex(loss))} loss is not convex"


def _of_the_map(theory: Theory, *, dpdo: bool) -> Iterator[str]:
    mirror_map = theory.mesh.settings.algorithm.mirror_map
    if dpdo and not math.isfinite(theory.geometry.smoothness):
        yield "the entropy is not smooth on the simplex's edge"
    if not dpdo and not mirror_map.euclidean:
        yield f"the mirror map is {mirror_map.name}, not euclidean"


def _of_the_steps(theory: Theory, *, dpdo: bool) -> Iterator[str]:
    settings = theory.mesh.settings
    strong, name = settings.algorithm.regulariser, settings.algorithm.name
    if name == "sparse-dola":
        return
    size = len(settings.nodes)
    if dpdo:
        rule, scale, expected = "inverse-sqrt", 1 / size, f"1/({size} sqrt(t))"
    elif strong:
        rule, scale, expected = "inverse", 1 / strong, f"{1 / strong:.3g}/t"
    else:
        rule, scale, expected = "inverse-sqrt", 0.5, "1/(2 sqrt(t))"
    steps = settings.algorithm.step_size
    if steps.rule != rule or not math.isclose(steps.a, scale, rel_tol=1e-9):
        yield f"steps are not {expected}"
    if dpdo and strong:
        yield "there is a regulariser"


def _of_the_noise(theory: Theory, *, dpdo: bool) -> Iterator[str]:
    settings = theory.mesh.settings
    privacy, name = settings.privacy, settings.algorithm.name
    if privacy.mechanism == "none":
        return
    usual = "gaussian" if name == "dola" and privacy.mechanism == "gaussian" else "laplace"
    if privacy.mechanism != usual:
        yield f"the noise is not Laplace's but that of {privacy.mechanism}"
    if usual == "gaussian":
        yield "the noise is calibrated to the gradient, not to alpha_t times it"
    elif privacy.on == "gradient":
        yield "the noise is on the gradient, not on the parameters"
    elif dpdo:
        yield "the noise is that of the step that made a release, not of the next one, which is less"
