"""Which passwords go where: a user of two brokers has two."""

import pytest

from streams.bus.rights import DesiredUsers, Scope, User
from streams.bus.users import _check_apart
from streams.mesh.errors import UsageError


def wanted(*names, tls=False):
    return DesiredUsers(tuple(User(name, (), (), None) for name in names), Scope(), tls=tls)


def test_one_password_for_two_brokers_is_refused():
    with pytest.raises(UsageError) as refused:
        _check_apart([("mesh broker", wanted("s", "a")), ("data broker of a", wanted("a", "a-feeder"))])
    assert str(refused.value) == (
        "--output: would hold one password of a for the mesh broker and the data broker of a: "
        "must be provisioned apart (--only mesh, --only data), with a folder each"
    )


def test_users_of_one_broker_each_and_users_with_certificates_share_no_password():
    _check_apart([("mesh broker", wanted("a", "b")), ("data broker of a", wanted("a-feeder"))])
    _check_apart([("mesh broker", wanted("a", tls=True)), ("data broker of a", wanted("a"))])
