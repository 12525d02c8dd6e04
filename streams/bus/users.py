"""Gives a mesh's users their passwords, rules and quotas on its brokers, or reports what differs.

All settings are read and compared before any is written, and only differences are written.
"""

import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)
from kafka.errors import ClusterAuthorizationFailedError, NoError, SecurityDisabledError, for_code
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest
from pydantic import SecretStr

from streams.bus.bus import Denied
from streams.bus.logs import reach_busy
from streams.bus.provision import Admin, AdminError, Side, batches, label, sides
from streams.bus.rights import (
    DesiredUsers,
    Grant,
    GrantGap,
    Quota,
    Scope,
    User,
    gap,
    merged,
)
from streams.mesh.errors import UsageError
from streams.mesh.file import AnyFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.keys import shown_to_others

# Passwords of users, each in a file of its own that only its owner may read.

_BYTES = 32


class Passwords:
    """A folder with a password a user. Raises UsageError, as its methods do."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--output {folder}: is a file: must be a folder, or not there yet")
        self.folder = folder

    def path(self, user: str) -> Path:
        """Return the file of a user's password."""
        return self.folder / user

    def of(self, user: str) -> str | None:
        """Return the password of a user, or None if there is none here."""
        path = self.path(user)
        try:
            text = path.read_bytes().decode().rstrip("\r\n")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise UsageError(f"{path}: cannot be read: {reason}: must hold a password in one line") from None
        if not text or any(sign in text for sign in "\n\0"):
            wrong = "has several lines" if text else "is empty"
            raise UsageError(f"{path}: {wrong}: must hold a password in one line")
        return text

    def make(self, user: str) -> str:
        """Write a new password into a file that is not there yet, whole or not at all; return it."""
        path, password = self.path(user), secrets.token_urlsafe(_BYTES)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mode 0600, and deleted at the end whatever happens
            with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix=".new.") as half:
                half.write(f"{password}\n")
                half.flush()
                os.fsync(half.fileno())
                path.hardlink_to(half.name)  # unlike a renaming, this overwrites nothing
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
        return password

    def shown_to_others(self, user: str) -> bool:
        """Return whether the file of a password is there, and may be read by others, who need not read it."""
        path = self.path(user)
        return path.exists() and shown_to_others(path)


# A typed front of kafka-python's admin client for users: passwords, rules, quotas. Errors are AdminError.

K = TypeVar("K", bound=IntEnum)

REFUSED = "these credentials may not read or change users and rights"
_ANY_NAME = 2
"""Kafka's code for a quota of any named user."""


def _words(kind: type[K]) -> dict[K, str]:
    """Return Kafka's names of these values, like `DescribeConfigs`."""
    return {member: "".join(part.capitalize() for part in member.name.split("_")) for member in kind}


_OPERATIONS = _words(ACLOperation)
_KINDS = {one: one.name.lower().replace("_", " ") for one in ResourceType}
_PATTERNS = {ACLResourcePatternType.LITERAL: "literal", ACLResourcePatternType.PREFIXED: "prefix"}


class UserAdmin(Admin):
    """One broker's users. A context manager. Needs the rights of an administrator: cluster Alter."""

    def grants(self) -> list[Grant]:
        """Return all rules that allow something."""
        return self._rules(ACLPermissionType.ALLOW)

    def denials(self) -> list[Grant]:
        """Return all rules that deny something, whatever others allow."""
        return self._rules(ACLPermissionType.DENY)

    def _rules(self, kind: ACLPermissionType) -> list[Grant]:
        anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        acl_filter = ACLFilter(None, None, ACLOperation.ANY, kind, anything)
        try:
            acls, _ = self._asked_of_users(lambda: self._client.describe_acls(acl_filter))
        except ValueError as error:  # Kafka has more operations than kafka-python
            raise AdminError(f"{self.servers}: has a rule that cannot be read here: {error}") from None
        return [_grant(acl) for acl in acls]

    def grant(self, grants: Iterable[Grant]) -> None:
        """Add these rules."""
        for batch in batches(list(grants)):
            acls = [ACL(*_allowed(grant), ResourcePattern(*_resource(grant))) for grant in batch]
            answer = self._asked_of_users(lambda acls=acls: self._client.create_acls(acls))
            for kind in answer["failed"]:
                raise AdminError(f"{self.servers}: a rule: {_why(kind)}")

    def revoke(self, grants: Iterable[Grant]) -> None:
        """Delete these rules."""
        for batch in batches(list(grants)):
            acls = [ACLFilter(*_allowed(grant), ResourcePatternFilter(*_resource(grant))) for grant in batch]
            for _, _, kind in self._asked_of_users(lambda acls=acls: self._client.delete_acls(acls)):
                if kind is not NoError:
                    raise AdminError(f"{self.servers}: a rule: {_why(kind)}")

    def with_password(self, users: Iterable[str], mechanism: str) -> set[str]:
        """Return those of the users who have a password for the mechanism, like `scram-sha-512`."""
        user_names = list(users)
        answer = self._asked_of_users(lambda: self._client.describe_user_scram_credentials(user_names))
        return {
            user
            for user, credentials in answer.items()
            for credential in credentials["credential_infos"]
            if credential["mechanism"].name == mechanism.upper().replace("-", "_")
        }

    def set_password(self, user: str, mechanism: str, password: str) -> None:
        """Make the user, or give it another password."""
        upsertion = UserScramCredentialUpsertion(user, mechanism, password)
        answer = self._asked_of_users(lambda: self._client.alter_user_scram_credentials([upsertion]))
        if answer[user] is not None:
            raise AdminError(f"{self.servers}: user {user}: {answer[user]}")

    def quotas(self) -> dict[str, dict[str, float]]:
        """Return the quotas of all users that have some."""
        request = DescribeClientQuotasRequest
        component = request.ComponentData(entity_type="user", match_type=_ANY_NAME, match=None)
        answer = self._sent(request(components=[component], strict=True))
        if answer.error_code:
            raise AdminError(
                f"{self.servers}: quotas: {_why(for_code(answer.error_code), answer.error_message)}"
            )
        return {
            entry.entity[0].entity_name: {value.key: value.value for value in entry.values}
            for entry in answer.entries or ()
        }

    def set_quotas(self, quotas: Mapping[str, Quota]) -> None:
        """Limit these users."""
        request = AlterClientQuotasRequest
        entries = [
            request.EntryData(
                entity=[request.EntryData.EntityData(entity_type="user", entity_name=user)],
                ops=[
                    request.EntryData.OpData(key=key, value=float(value), remove=False)
                    for key, value in quota._asdict().items()
                ],
            )
            for user, quota in quotas.items()
        ]
        for batch in batches(entries):
            for entry in self._sent(request(entries=batch, validate_only=False)).entries:
                if entry.error_code:
                    user = entry.entity[0].entity_name
                    reason = _why(for_code(entry.error_code), entry.error_message)
                    raise AdminError(f"{self.servers}: quota of {user}: {reason}")

    def _sent(self, request: Any) -> Any:
        """Send a request that kafka-python's admin client has no method for."""
        manager = self._client._manager  # noqa: SLF001 # pinned by a test
        return self._asked_of_users(lambda: manager.run(manager.send, request))

    def _asked_of_users(self, question: Any) -> Any:
        try:
            return self._asked(question)
        except AdminError as error:
            match error.__context__:
                case SecurityDisabledError():
                    words = "has no rights to give: its setting authorizer.class.name is missing"
                case ClusterAuthorizationFailedError():
                    words = f"{REFUSED}: ask its administrator"
                case _:
                    raise
            raise AdminError(f"{self.servers}: {words}") from None


def _why(kind: type[Exception], said: str | None = None) -> str:
    return REFUSED if kind is ClusterAuthorizationFailedError else said or kind.__name__


def _grant(acl: ACL) -> Grant:
    place = acl.resource_pattern
    pattern = _PATTERNS[place.pattern_type]
    resource = (_KINDS[place.resource_type], place.resource_name, pattern)
    return Grant(acl.principal, *resource, _OPERATIONS[acl.operation], acl.host)


def _allowed(grant: Grant) -> tuple[Any, ...]:
    return grant.principal, grant.host, _key(_OPERATIONS, grant.operation), ACLPermissionType.ALLOW


def _resource(grant: Grant) -> tuple[Any, ...]:
    return _key(_KINDS, grant.kind), grant.name, _key(_PATTERNS, grant.pattern)


def _key(words: Mapping[K, str], word: str) -> K:
    return next(member for member, member_word in words.items() if member_word == word)


@dataclass(frozen=True, slots=True)
class Logins:
    """Users whose passwords a broker lacks: `new` users, and `changed` ones, whose file has another password.

    `elsewhere`: users that the broker knows and whose passwords are not here.
    """

    new: tuple[User, ...] = ()
    changed: tuple[User, ...] = ()
    elsewhere: tuple[User, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences on one broker. `users`: all that it should have; `warnings`: lines for the operator."""

    label: str
    servers: str
    users: tuple[User, ...]
    logins: Logins
    gap: GrantGap
    warnings: tuple[str, ...]

    @property
    def different(self) -> bool:
        """Whether a right, password or quota is missing, or a rule is too much."""
        grant_gap, logins = self.gap, self.logins
        lacking = grant_gap.missing or grant_gap.quotas or logins.new or logins.changed
        return bool(lacking or grant_gap.denied or grant_gap.excess or grant_gap.wider)


@dataclass(slots=True)
class _Broker:
    """A cluster, and what it carries: the mesh's topics (`mesh`), and these nodes' data."""

    settings: BrokerSettings
    admin: UserAdmin
    mesh: bool
    nodes: list[str]

    @property
    def label(self) -> str:
        names = [label(None)] if self.mesh else []
        return " and ".join(names + [label(", ".join(self.nodes))] * bool(self.nodes))

    def wanted(self, file: AnyFile) -> DesiredUsers:
        users = (*(shared_users(file) if self.mesh else ()), *file.kind.data_users(file, self.nodes))
        tls = self.settings.security == "tls"
        topics = file.sources(self.nodes), file.label_topics(self.nodes)
        scope = Scope.of(file.mesh.name, self.nodes, *topics, shared=self.mesh, tls=tls)
        return DesiredUsers(merged(users), scope, tls=tls)


def shared_users(file: AnyFile) -> tuple[User, ...]:
    """Return the users of the broker that all share."""
    users: tuple[User, ...] = file.kind.users(file)
    return users


class UserPlan:
    """The changes of users, rights and quotas that the brokers need. A context manager.

    The constructor reads the brokers' current state. `only`: change the mesh broker or the data brokers
    alone; None: both. `folder`: where passwords are read and written. Raises MeshFileError, UsageError, and
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
        """Raise UsageError if there are new passwords and no folder to write them to."""
        names = [user.name for broker_changes in self.changes for user in broker_changes.logins.new]
        if names and self._passwords is None:
            words = f"must be the folder for the passwords of {', '.join(names)}"
            raise UsageError(f"--output: missing: {words}")

    def write(self, *, prune: bool = False) -> None:
        """Make the changes. `prune`: also remove the rules that the mesh file does not give."""
        self.check_folder()
        for broker, broker_changes in zip(self._brokers, self.changes, strict=True):
            if self._passwords is not None:
                _set_passwords(broker, broker_changes.logins, self._passwords)
            broker.admin.grant(broker_changes.gap.missing)
            broker.admin.set_quotas(broker_changes.gap.quotas)
            if prune:
                broker.admin.revoke(broker_changes.gap.excess)


def _check_apart(brokers: list[tuple[str, DesiredUsers]]) -> None:
    """Raise UsageError if a user would have the same password on several brokers."""
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


def _changes(broker: _Broker, wanted: DesiredUsers, passwords: Passwords | None) -> Changes:
    name = broker.settings.username
    if broker.settings.users and any(user.name == name for user in wanted.users):
        words = "provisions here, so it must be an administrator and no user of the mesh"
        raise UsageError(f"{broker.label} {broker.settings.servers}: the user {name} {words}")
    logins, warnings = _logins(broker, wanted, passwords)
    grant_gap = gap(wanted, broker.admin.grants(), broker.admin.quotas(), broker.admin.denials())
    return Changes(broker.label, broker.settings.servers, wanted.users, logins, grant_gap, warnings)


def _logins(
    broker: _Broker, wanted: DesiredUsers, passwords: Passwords | None
) -> tuple[Logins, tuple[str, ...]]:
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
