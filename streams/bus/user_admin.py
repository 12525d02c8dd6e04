"""A typed front of kafka-python's admin client for users: passwords, rules, quotas. Errors are AdminError."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

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

from streams.bus.admin import Admin, AdminError
from streams.bus.grants import Grant
from streams.bus.quotas import Quota

T = TypeVar("T")
K = TypeVar("K", bound=IntEnum)

REFUSED = "these credentials may not read or change users and rights"
_MOST = 1000
"""Changes in one request."""
_ANY_NAME = 2
"""Kafka's code for quotas of users that are named."""


def _words(kind: type[K]) -> dict[K, str]:
    """Return Kafka's words for these: `DescribeConfigs`."""
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
        for batch in _several(list(grants)):
            acls = [ACL(*_allowed(grant), ResourcePattern(*_resource(grant))) for grant in batch]
            answer = self._asked_of_users(lambda acls=acls: self._client.create_acls(acls))
            for kind in answer["failed"]:
                raise AdminError(f"{self.servers}: a rule: {_why(kind)}")

    def revoke(self, grants: Iterable[Grant]) -> None:
        """Take these rules away."""
        for batch in _several(list(grants)):
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
        for batch in _several(entries):
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


def _several(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[k : k + _MOST] for k in range(0, len(items), _MOST))


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
