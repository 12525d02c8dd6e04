"""What of kafka-python is used in ways that are not its public interface: a newer version may change it."""

from importlib.metadata import version

import pytest
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from streams.bus.admin import AdminError
from streams.bus.users import UserAdmin

PINNED = "3.0."


def test_the_admin_client_has_no_method_for_quotas_yet():
    """When one comes, `UserAdmin._sent` goes, and `quotas` and `set_quotas` call it."""
    assert version("kafka-python").startswith(PINNED)
    assert [name for name in dir(KafkaAdminClient) if "quota" in name.lower()] == []


def test_the_requests_for_quotas_are_there_with_their_fields():
    wanted = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=2, match=None)
    assert DescribeClientQuotasRequest(components=[wanted], strict=True).strict
    entity = AlterClientQuotasRequest.EntryData.EntityData(entity_type="user", entity_name="a")
    change = AlterClientQuotasRequest.EntryData.OpData(key="request_percentage", value=1.0, remove=False)
    entry = AlterClientQuotasRequest.EntryData(entity=[entity], ops=[change])
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    assert request.entries[0].ops[0].value == 1.0


class Foreign:
    """A client whose broker has a rule of an operation that kafka-python does not know."""

    def describe_acls(self, _):
        raise ValueError("15 is not a valid ACLOperation")


def test_a_rule_that_kafka_python_does_not_know_is_one_line():
    admin = UserAdmin.__new__(UserAdmin)
    admin.servers, admin._client = "broker:9092", Foreign()
    with pytest.raises(AdminError, match=r"^broker:9092: has a rule that cannot be read here: 15 is not"):
        admin.grants()
