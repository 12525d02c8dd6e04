"""The parties' own parts of a mesh file, and their brokers: the same for a mesh and a collaboration."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from streams.mesh.errors import ABSENT, MeshFileError, Problem, one_of
from streams.mesh.settings.brokers import BrokerSettings, BrokersSettings, CommonBrokers


class _Own(Protocol):
    @property
    def brokers(self) -> CommonBrokers | None: ...


P = TypeVar("P", bound=_Own)


class OwnParts(Generic[P]):
    """A mesh file's own parts: `part` is the key that they stand under, `member` one of them in words."""

    part: ClassVar[str]
    member: ClassVar[str]
    path: Path
    elsewhere: Mapping[str, str]
    common: CommonBrokers | None

    @property
    @abstractmethod
    def owns(self) -> Mapping[str, P]:
        """The own parts that are here."""

    @property
    @abstractmethod
    def members(self) -> Iterable[str]:
        """The names of all who have one, here or elsewhere."""

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error for the value at `path` of this file; `allowed` says what it must be."""
        return MeshFileError([Problem(str(self.path), path, allowed, value).line])

    def own(self, name: str) -> P:
        """Return the own part of one. Raises MeshFileError if it is not here, or the name is unknown."""
        if name not in self.members:
            allowed = f"is no {self.member} of the mesh: {one_of(self.members, name)}"
            raise self.refuse(("mesh", self.part), allowed, name)
        to_run = f"must be here to run the {self.member}"
        if name in self.elsewhere:
            raise self.refuse((self.part, name), f"no such file: {to_run}", self.elsewhere[name])
        if name not in self.owns:
            raise self.refuse((self.part, name), f"missing: {to_run}")
        return self.owns[name]

    def brokers(self, name: str) -> BrokersSettings:
        """Return the brokers of one whose own part is here. Raises MeshFileError if there are none."""
        brokers, common = self.own(name).brokers, self.common
        if isinstance(brokers, BrokersSettings):
            return brokers
        if brokers is not None:
            return self._with_data(name, brokers)
        if common is None:
            raise self.refuse((self.part, name, "brokers"), "missing: must be given to use a broker")
        if common.data is None:
            place = f"here or for the {self.member} {name}"
            raise self.refuse(("brokers", "data"), f"missing: must be given, {place}")
        return BrokersSettings.model_validate(dict(common))

    def _with_data(self, name: str, own: CommonBrokers) -> BrokersSettings:
        """Return own brokers that may have no data broker as those that have one."""
        if own.data is None:
            raise self.refuse((self.part, name, "brokers", "data"), "missing: must be given, for its records")
        return BrokersSettings.model_validate(dict(own))

    @property
    def mesh_broker(self) -> BrokerSettings:
        """The broker that all share. Raises MeshFileError if there is none."""
        if self.common is not None:
            return self.common.mesh
        for part in self.owns.values():
            if part.brokers is not None:
                return part.brokers.mesh
        raise self.refuse(("brokers",), "missing: must be given to use a broker")

    @property
    def names_brokers(self) -> bool:
        """Whether any broker is named here: without one it runs in one process only."""
        return self.common is not None or any(part.brokers is not None for part in self.owns.values())
