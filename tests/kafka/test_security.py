"""Access rules, tokens and credentials: nothing is claimed that is not done."""

from __future__ import annotations

import uuid

import pytest
from tests.support.raw_kafka import RawKafka

from trunkline.broker.configs import ConfigKind
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from trunkline.wire.kafka.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from trunkline.wire.kafka.messages.create_acls_request import AclCreation, CreateAclsRequest
from trunkline.wire.kafka.messages.create_acls_response import CreateAclsResponse
from trunkline.wire.kafka.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from trunkline.wire.kafka.messages.delete_acls_response import DeleteAclsResponse
from trunkline.wire.kafka.messages.describe_acls_request import DescribeAclsRequest
from trunkline.wire.kafka.messages.describe_acls_response import DescribeAclsResponse
from trunkline.wire.kafka.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from trunkline.wire.kafka.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from trunkline.wire.kafka.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from trunkline.wire.kafka.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)

SHA_256 = 1


@pytest.fixture
def client(broker: Broker) -> RawKafka:
    return RawKafka(broker.kafka)


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4().hex[:8]}"


def upsert(user: str, iterations: int = 8192) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user, mechanism=SHA_256, iterations=iterations, salt=b"salt", salted_password=b"salted password"
    )


def alter(client: RawKafka, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> list[int]:
    request = AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
        upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    return [result.error_code for result in client.ask(request, 0, AlterUserScramCredentialsResponse).results]


def describe(client: RawKafka, *users: str) -> DescribeUserScramCredentialsResponse:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users])
    return client.ask(request, 0, DescribeUserScramCredentialsResponse)


def test_access_rules_are_disabled(client: RawKafka) -> None:
    everything = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    assert client.ask(everything, 3, DescribeAclsResponse).error_code == ErrorCode.SECURITY_DISABLED
    creation = AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
    )
    created = client.ask(CreateAclsRequest(creations=[creation] * 2), 3, CreateAclsResponse)
    assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deletion = DeleteAclsFilter(resource_type_filter=2, operation=1, permission_type=1)
    deleted = client.ask(DeleteAclsRequest(filters=[deletion]), 3, DeleteAclsResponse)
    assert [result.error_code for result in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]


def test_tokens_are_for_those_who_signed_in(client: RawKafka) -> None:
    answer = client.ask(DescribeDelegationTokenRequest(), 3, DescribeDelegationTokenResponse)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_credentials_are_kept_described_and_deleted(client: RawKafka, broker: Broker, user: str) -> None:
    assert alter(client, upsert(user)) == [ErrorCode.NONE]
    [known] = describe(client, user).results
    assert [(info.mechanism, info.iterations) for info in known.credential_infos] == [(SHA_256, 8192)]
    assert user in [result.user for result in describe(client).results]
    kept = broker.node.broker.configs.of(ConfigKind.USER, user)
    assert "salted password" not in str(kept)
    assert alter(client, ScramCredentialDeletion(name=user, mechanism=SHA_256)) == [ErrorCode.NONE]
    assert describe(client, user).results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND


def test_credentials_that_cannot_be_are_refused_and_change_nothing(client: RawKafka, user: str) -> None:
    assert alter(client, upsert(user, iterations=10)) == [ErrorCode.UNACCEPTABLE_CREDENTIAL]
    assert alter(client, upsert("")) == [ErrorCode.UNACCEPTABLE_CREDENTIAL]
    assert alter(client, upsert(user), upsert(user)) == [ErrorCode.DUPLICATE_RESOURCE]
    gone = ScramCredentialDeletion(name=user, mechanism=SHA_256)
    assert alter(client, gone) == [ErrorCode.RESOURCE_NOT_FOUND]
    odd = ScramCredentialDeletion(name=user, mechanism=9)
    assert alter(client, odd) == [ErrorCode.UNSUPPORTED_SASL_MECHANISM]
    assert describe(client, user).results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND
    assert describe(client, user, user).results[0].error_code == ErrorCode.DUPLICATE_RESOURCE
