"""Gives a mesh's users their passwords, rules and quotas on its brokers, or says what differs.

Everything is read and compared before anything is written, and only differences are written.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import SecretStr

from streams.bus.access import User, data_users, merged, mesh_users
from streams.bus.bus import Denied
from streams.bus.collaboration_access import collaboration_users, owner_data_users
from streams.bus.grants import Gap, Scope, Wanted, gap
from streams.bus.logs import reach_busy
from streams.bus.passwords import Passwords
from streams.bus.provision import AnyFile, Side, label, sides
from streams.bus.user_admin import UserAdmin
from streams.mesh.errors import UsageError
from streams.mesh.file import CollaborationFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.wire import Wire


@dataclass(frozen=True, slots=True)
class Logins:
    """The passwords that a broker lacks: of `new` users, and `changed` ones, whose file holds another.

    `elsewhere`: users whom the broker knows, and whose passwords are not here.
    """

    new: tuple[User, ...] = ()
    changed: tuple[User, ...] = ()
    elsewhere: tuple[User, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences on one broker. `users` are all that are wanted there; `warnings` are for people."""

    label: str
    servers: str
    users: tuple[User, ...]
    logins: Logins
    gap: Gap
    warnings: tuple[str, ...]

    @property
    def different(self) -> bool:
        """Whether anything is missing or too much."""
        grant_gap, logins = self.gap, self.logins
        lacking = grant_gap.missing or grant_gap.quotas or logins.new or logins.changed
        return bool(lacking or grant_gap.denied or grant_gap.excess or grant_gap.wider)


@dataclass(slots=True)
class _Broker:
    """A cluster, and whom it serves: the mesh, and these nodes' data."""

    settings: BrokerSettings
    admin: UserAdmin
    mesh: bool
    nodes: list[str]

    @property
    def label(self) -> str:
        names = [label(None)] if self.mesh else []
        return " and ".join(names + [label(", ".join(self.nodes))] * bool(self.nodes))

    def wanted(self, file: AnyFile) -> Wanted:
        users = (*(shared_users(file) if self.mesh else ()), *_data_users(file, self.nodes))
        scope = Scope.of(file.mesh.name if self.mesh else None, self.nodes)
        return Wanted(merged(users), scope, tls=self.settings.security == "tls")


def shared_users(file: AnyFile) -> tuple[User, ...]:
    """Return the users of the broker that all share."""
    if isinstance(file, CollaborationFile):
        return collaboration_users(Wire(file.resolved))
    return mesh_users(file.resolved)


def _data_users(file: AnyFile, names: list[str]) -> tuple[User, ...]:
    return (
        owner_data_users(names) if isinstance(file, CollaborationFile) else data_users(file.resolved, names)
    )


class UserPlan:
    """What is to be changed on the brokers: `changes`, read when it is made. A context manager.

    `only`: on one side. `folder`: where passwords are, and are written. Raises MeshFileError, UsageError,
    BusError if a broker refuses.
    """

    def __init__(self, file: AnyFile, folder: Path | None, only: Side | None = None) -> None:
        self._passwords = None if folder is None else Passwords(folder)
        with ExitStack() as stack:
            self._brokers = _brokers(file, only, stack)
            if folder is not None:
                _check_apart([(side.label, side.wanted(file)) for side in self._brokers])
            self.changes = tuple(_changes(side, side.wanted(file), self._passwords) for side in self._brokers)
            self._closing = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def check_folder(self) -> None:
        """Raise UsageError if new passwords have no place."""
        names = [user.name for broker_changes in self.changes for user in broker_changes.logins.new]
        if names and self._passwords is None:
            words = f"must be the folder for the passwords of {', '.join(names)}"
            raise UsageError(f"--output: missing: {words}")

    def write(self, *, prune: bool = False) -> None:
        """Make the changes. `prune`: take away the rules that the mesh file does not give."""
        self.check_folder()
        for broker, broker_changes in zip(self._brokers, self.changes, strict=True):
            if self._passwords is not None:
                _set_passwords(broker, broker_changes.logins, self._passwords)
            broker.admin.grant(broker_changes.gap.missing)
            broker.admin.set_quotas(broker_changes.gap.quotas)
            if prune:
                broker.admin.revoke(broker_changes.gap.excess)


def _check_apart(brokers: list[tuple[str, Wanted]]) -> None:
    """Raise UsageError if a user of several brokers would have one password: each must have its own."""
    first: dict[str, str] = {}
    for broker, desired in brokers:
        for user in desired.logins():
            first_broker = first.setdefault(user.name, broker)
            if first_broker != broker:
                conflict = f"would hold one password of {user.name} for the {first_broker} and the {broker}"
                remedy = "must be provisioned apart (--only mesh, --only data), with a folder each"
                raise UsageError(f"--output: {conflict}: {remedy}")


def _brokers(file: AnyFile, only: Side | None, stack: ExitStack) -> list[_Broker]:
    clusters: dict[str, _Broker] = {}
    by_settings: dict[BrokerSettings, str] = {}
    for node, settings in sides(file, only):
        if settings not in by_settings:
            if settings.security == "plaintext":
                words = "must be sasl, tls or sasl-tls for a broker with users"
                raise UsageError(f"{label(node)} {settings.servers}: security is plaintext: {words}")
            admin = stack.enter_context(UserAdmin(settings))
            by_settings[settings] = admin.cluster
            clusters.setdefault(admin.cluster, _Broker(settings, admin, mesh=False, nodes=[]))
        broker = clusters[by_settings[settings]]
        if node is None:
            broker.mesh = True
        else:
            broker.nodes.append(node)
    return list(clusters.values())


def _changes(broker: _Broker, wanted: Wanted, passwords: Passwords | None) -> Changes:
    name = broker.settings.username
    if broker.settings.users and any(user.name == name for user in wanted.users):
        words = "provisions here, so it must be an administrator and no user of the mesh"
        raise UsageError(f"{broker.label} {broker.settings.servers}: the user {name} {words}")
    logins, warnings = _logins(broker, wanted, passwords)
    grant_gap = gap(wanted, broker.admin.grants(), broker.admin.quotas(), broker.admin.denials())
    return Changes(broker.label, broker.settings.servers, wanted.users, logins, grant_gap, warnings)


def _logins(broker: _Broker, wanted: Wanted, passwords: Passwords | None) -> tuple[Logins, tuple[str, ...]]:
    settings, users = broker.settings, wanted.logins()
    if not users:
        return Logins(), ()
    if settings.mechanism == "plain":
        return Logins(), ("mechanism plain: passwords are made in the broker's own settings, not here",)
    users_with_password = broker.admin.with_password((user.name for user in users), settings.mechanism)
    new, changed, other_users, warnings = [], [], [], []
    for user in users:
        password = None if passwords is None else passwords.of(user.name)
        if user.name not in users_with_password:
            new.append(user)
        elif password is None:
            other_users.append(user)
        elif not _logs_in(settings, user.name, password):
            changed.append(user)
        if passwords is not None and passwords.shown_to_others(user.name):
            warnings.append(f"{passwords.path(user.name)}: not only its owner may read it")
    return Logins(tuple(new), tuple(changed), tuple(other_users)), tuple(warnings)


def _logs_in(settings: BrokerSettings, user: str, password: str) -> bool:
    try:
        reach_busy(settings.model_copy(update={"username": user, "password": SecretStr(password)}))
    except Denied:
        return False
    return True


def _set_passwords(broker: _Broker, logins: Logins, passwords: Passwords) -> None:
    for user in (*logins.new, *logins.changed):
        password = passwords.of(user.name) or passwords.make(
            user.name
        )  # in its file before the broker has it
        broker.admin.set_password(user.name, broker.settings.mechanism, password)
