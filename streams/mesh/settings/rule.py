"""The `rule` block of a mesh file, and filling in the settings that it chooses, before the digest."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from nodes.rule import VERSIONS, Public, PublicUnit, RuleChoice, chosen
from streams.mesh.settings.algorithm import DynamicsSettings, LossSettings
from streams.mesh.settings.base import Count, Settings, or_none, refusal
from streams.mesh.settings.privacy import Delta, Epsilon, EpsilonSettings, release_epsilon
from streams.mesh.settings.schema import SchemaSettings

Tree = Mapping[str, Any]


def _known_version(value: object) -> object:
    if isinstance(value, bool) or value not in VERSIONS:
        raise refusal("must be 1 or 2: this version of mirrormesh has no other tables")
    return value


class RuleSettings(Settings):
    """Public values from which settings follow that the file leaves out: `algorithm`, `slots.size`,
    `privacy.mechanism`, `bands` and, for losses of classes, `gradient_bound`, `constraint` and `step_size`.
    What the file gives stays. The rule also reads the dimension, loss, class weights, epsilon and delta. With
    a unit `rounds`, `unit.records` and `unit.apart` follow too, and laplace drops a delta.
    """

    version: Annotated[int, BeforeValidator(_known_version)]
    """The version of the rule's tables, 1 or 2. They are alike without `privacy.unit`, which needs 2."""
    records: Annotated[Count | None, BeforeValidator(or_none)]
    """n: the number of records that each node has, or will have. `none`: a stream without an end."""
    members: Count
    """N: the number of nodes for which settings are chosen. It stays where nodes join or leave."""
    columns: Count | None = None
    """s: the most features of a record that are not 0 at once, which is the number of columns of a schema
    without numbers. Not given: all features, which costs accuracy without a delta."""

    @property
    def in_words(self) -> str:
        """The records and nodes."""
        records = "records without an end" if self.records is None else f"{self.records:,} records"
        return f"{records} at each of {self.members:,} nodes"


class Resolved(NamedTuple):
    """A choice of the rule, its key with dots, and the mesh's own value, which may be from the file."""

    key: str
    choice: RuleChoice
    value: Any


def filled(tree: Tree) -> Tree:
    """Return the shared part of a file, completed with the rule's choices for missing settings.

    Where the rule cannot read its input, missing settings get any valid values, so that only the mistakes in
    the input are reported. Raises a refusal for a missing setting that the rule does not choose.
    """
    privacy = tree.get("privacy")
    unit = privacy.get("unit") if isinstance(privacy, Mapping) else None
    if unit is not None and _version(tree) == 1:
        raise refusal("a rule of version 1 knows no units: must be 2", "rule", "version")
    try:
        public = _public(tree)
    except (ValidationError, PydanticCustomError, ValueError, TypeError):
        return _with(tree, _anything(tree))
    choices = {key: choice.value for key, choice in chosen(public).items()}
    slots = tree.get("slots", {"by": "count"})
    if "slots.size" in choices and isinstance(slots, Mapping) and slots.get("by") == "time":
        raise refusal("missing: a rule chooses no size for slots by time", "slots", "size")
    if "algorithm" not in tree and "algorithm.name" not in choices:
        text = "a rule chooses it for hinge, logistic, and softmax of three classes or more alone"
        raise refusal(f"missing: {text}", "algorithm")
    choices = {key: value for key, value in choices.items() if key != "rounds" or tree.get("rounds") is None}
    completed = dict(_with({**tree, "slots": slots}, choices))
    if unit is not None and completed["privacy"].get("mechanism") == "laplace" and public.mechanism is None:
        completed["privacy"] = {key: item for key, item in completed["privacy"].items() if key != "delta"}
    return completed


def _version(tree: Tree) -> object:
    rule = tree["rule"]
    return rule.get("version") if isinstance(rule, Mapping) else None


def resolved(mesh: Any) -> list[Resolved]:
    """Return each choice of a mesh's rule together with the mesh's own value."""
    tree = {key: getattr(mesh, key) for key in _READ}
    return [
        Resolved(key, choice, _value(mesh, key.split("."))) for key, choice in chosen(_public(tree)).items()
    ]


def written_out(mesh: Any, tree: Tree) -> Tree:
    """Return the shared part of a file with the dimension and the rule's choices written out."""
    choices = {key: value for key, _, value in resolved(mesh)}
    return {**_with(tree, choices), "dimension": mesh.dimension}


_READ = ("rule", "loss", "features", "dimension", "class_weights", "algorithm", "privacy", "slots", "rounds")
"""The keys of the shared part that the rule reads; `rounds` with a unit alone. It reads no nodes."""


def _public(tree: Tree) -> Public:
    """Return the rule's input. Raises a validation error, ValueError or TypeError where it is invalid."""
    rule = RuleSettings.model_validate(tree["rule"])
    loss = LossSettings.model_validate(tree["loss"])
    algorithm, privacy, slots = (_mapping(tree.get(key)) for key in ("algorithm", "privacy", "slots"))
    columns, dimension = _dimensions(tree, loss, algorithm)
    size = slots.get("size")
    size = None if size is None else TypeAdapter(Count).validate_python(size, strict=True)
    classes = 2 if loss.signed else loss.softmax or 0
    delta, name = privacy.get("delta"), algorithm.get("name")
    return Public(
        records=rule.records,
        members=rule.members,
        entries=rule.columns,
        columns=columns,
        dimension=dimension,
        classes=0 if loss.softmax == 2 else classes,
        weighted=tree.get("class_weights") is not None,
        epsilon=_epsilon(privacy.get("epsilon"), size or 1),
        delta=None if delta is None else TypeAdapter(Delta).validate_python(delta, strict=True),
        size=size,
        algorithm=name,
        mechanism=_mechanism(privacy),
        unit=_unit(privacy.get("unit"), tree.get("rounds")),
    )


def _unit(value: object, rounds: object) -> PublicUnit | None:
    if value is None:
        return None
    unit, count = _mapping(value), TypeAdapter(Count)
    settings = [unit.get("records"), unit.get("apart"), None if rounds == "none" else rounds]
    return PublicUnit(
        *[None if item is None else count.validate_python(item, strict=True) for item in settings]
    )


def _mapping(value: object) -> Tree:
    if value is None:
        return {}
    tree = dict(value) if isinstance(value, Mapping | Settings) else None
    if tree is None:
        raise TypeError
    return tree


def _dimensions(tree: Tree, loss: LossSettings, algorithm: Tree) -> tuple[int, int]:
    """Return the number of features (less an intercept outside), and of coordinates that the loss sees."""
    features, has_cut = tree.get("features"), False
    width = tree.get("dimension")
    if features is not None:
        schema = SchemaSettings.model_validate(features)
        has_cut = schema.intercept == "outside"
        width = schema.width * loss.decisions_per_feature
    dynamics = algorithm.get("dynamics")
    if dynamics is not None:
        motion = DynamicsSettings.model_validate(dynamics)
        observed = len(algorithm.get("observes") or motion.usual)
        return observed, observed
    width = TypeAdapter(Count).validate_python(width, strict=True)
    return max(1, width // loss.decisions_per_feature - has_cut), width


def _epsilon(value: object, size: int) -> Any:
    if value is None:
        return None
    epsilon: Any = TypeAdapter(Epsilon).validate_python(value)
    return release_epsilon(epsilon, size) if isinstance(epsilon, EpsilonSettings) else epsilon


def _mechanism(privacy: Tree) -> str | None:
    """Return the mechanism; it is laplace for noise on parameters, which has no other."""
    mechanism: str | None = privacy.get("mechanism")
    return "laplace" if mechanism is None and privacy.get("on") == "parameters" else mechanism


def _anything(tree: Tree) -> dict[str, Any]:
    """Return valid settings for a rule whose input is invalid."""
    privacy = tree.get("privacy")
    has_delta = isinstance(privacy, Mapping) and privacy.get("delta") is not None
    return {
        "slots.size": 1,
        "algorithm.name": "class-sums",
        "privacy.mechanism": "gaussian" if has_delta else "laplace",
        "privacy.unit.records": 1,
        "privacy.unit.apart": 2**62,
    }


def _with(tree: Tree, choices: Mapping[str, Any]) -> Tree:
    """Return the tree with choices for the settings that it lacks. Parts that are no mapping are kept."""
    parts = {"slots": {"by": "count"}, "algorithm": {}, "privacy": {}}
    completed = {**tree, **{key: tree.get(key, part) for key, part in parts.items()}}
    for key, value in choices.items():
        completed = _set(completed, key.split("."), value)
    return {key: value for key, value in completed.items() if value != {} or key in tree}


def _set(tree: Tree, path: list[str], value: Any) -> dict[str, Any]:
    """Return the tree with a value where it has none. A part that is missing or no mapping stays as it is."""
    name, *rest = path
    if not rest:
        return {**tree, name: value} if tree.get(name) is None else dict(tree)
    part = tree.get(name)
    return {**tree, name: _set(part, rest, value)} if isinstance(part, Mapping) else dict(tree)


def _value(mesh: Any, path: list[str]) -> Any:
    """Return a setting of the mesh in the form that a mesh file has."""
    value = mesh
    for name in path:
        value = getattr(value, name)
    if isinstance(value, Settings):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return value
