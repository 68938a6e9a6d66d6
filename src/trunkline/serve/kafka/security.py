"""Who may do what: not asked here yet, so nobody is told that it is.

DescribeAcls (key 29), CreateAcls (30), DeleteAcls (31), versions 1-3: SECURITY_DISABLED, as from a broker without an
authorizer. CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken
(41), versions 1-3: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as over a connection that nobody signed in on.
DescribeUserScramCredentials (50) and AlterUserScramCredentials (51), version 0: kept as Kafka keeps them, salted keys
only, for the day listeners ask for them; until then nobody signs in with them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping
from typing import Final

from trunkline.broker.configs import ConfigKind
from trunkline.model.errors import (
    DuplicateResource,
    TrunklineError,
    UnacceptableCredential,
    UnknownResource,
    UnsupportedMechanism,
)
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of, text_of
from trunkline.wire.kafka.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from trunkline.wire.kafka.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from trunkline.wire.kafka.messages.create_acls_request import CreateAclsRequest
from trunkline.wire.kafka.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from trunkline.wire.kafka.messages.create_delegation_token_request import CreateDelegationTokenRequest
from trunkline.wire.kafka.messages.create_delegation_token_response import CreateDelegationTokenResponse
from trunkline.wire.kafka.messages.delete_acls_request import DeleteAclsRequest
from trunkline.wire.kafka.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from trunkline.wire.kafka.messages.describe_acls_request import DescribeAclsRequest
from trunkline.wire.kafka.messages.describe_acls_response import DescribeAclsResponse
from trunkline.wire.kafka.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from trunkline.wire.kafka.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from trunkline.wire.kafka.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from trunkline.wire.kafka.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from trunkline.wire.kafka.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from trunkline.wire.kafka.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from trunkline.wire.kafka.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from trunkline.wire.kafka.messages.renew_delegation_token_response import RenewDelegationTokenResponse

_NO_ACLS: Final = "There are no access rules here: everybody who reaches this node may do everything."
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_HASHES: Final = {1: "sha256", 2: "sha512"}
_MIN_ITERATIONS: Final = 4096
_MAX_ITERATIONS: Final = 16_384


def describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_ACLS)


def create_acls(call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_ACLS)
    return CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_ACLS)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def create_delegation_token(call: Call, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type="User",
        token_requester_principal_name="ANONYMOUS",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def renew_delegation_token(call: Call, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )


def expire_delegation_token(call: Call, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )


def describe_delegation_token(call: Call, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


# ── SCRAM credentials: in the configs of a user, one value a mechanism ──────────────────────────
#
#     SCRAM-SHA-256   iterations=8192,salt=…,stored_key=…,server_key=…      bytes in base64


def describe_user_scram_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    known = call.broker.configs.all(ConfigKind.USER)
    times = Counter(user.name for user in request.users) if request.users else Counter(known)
    results = []
    for user in times if request.users else known:
        result = DescribeUserScramCredentialsResult(user=user, error_message=None)
        try:
            if request.users and times[user] > 1:
                raise DuplicateResource(f"User {user!r} stands in the request more than once.")
            if user not in known:
                raise UnknownResource(f"User {user!r} has no credentials here.")
            result.credential_infos = _infos(known[user])
        except TrunklineError as error:
            result.error_code, result.error_message = code_of(error), text_of(error)
        results.append(result)
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _infos(credentials: Mapping[str, str]) -> list[CredentialInfo]:
    return [
        CredentialInfo(mechanism=number, iterations=int(credentials[name].split(",")[0].removeprefix("iterations=")))
        for number, name in _MECHANISMS.items()
        if name in credentials
    ]


def alter_user_scram_credentials(
    call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """A user whose first change is refused keeps everything as it was."""
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    by_user: dict[str, list[ScramCredentialDeletion | ScramCredentialUpsertion]] = {}
    for change in changes:
        by_user.setdefault(change.name, []).append(change)
    results = []
    for user, wanted in by_user.items():
        result = AlterUserScramCredentialsResult(user=user, error_message=None)
        try:
            call.broker.configs.set(ConfigKind.USER, user, _changed(call, user, wanted))
        except TrunklineError as error:
            result.error_code, result.error_message = code_of(error), text_of(error)
        results.append(result)
    return AlterUserScramCredentialsResponse(results=results)


def _changed(
    call: Call, user: str, changes: list[ScramCredentialDeletion | ScramCredentialUpsertion]
) -> Mapping[str, str]:
    credentials = dict(call.broker.configs.of(ConfigKind.USER, user))
    if not user:
        raise UnacceptableCredential("A user has a name that is not empty.")
    mechanisms = [change.mechanism for change in changes]
    if any(mechanism not in _MECHANISMS for mechanism in mechanisms):
        raise UnsupportedMechanism("SCRAM-SHA-256 (1) and SCRAM-SHA-512 (2) are known, no other mechanism is.")
    for change in changes:
        name = _MECHANISMS[change.mechanism]
        if isinstance(change, ScramCredentialDeletion) and credentials.pop(name, None) is None:
            raise UnknownResource(f"User {user!r} has no {name} credential that could be deleted.")
    if len(set(mechanisms)) < len(mechanisms):
        raise DuplicateResource(f"A credential of user {user!r} stands in the request more than once.")
    for change in changes:
        if isinstance(change, ScramCredentialUpsertion):
            credentials[_MECHANISMS[change.mechanism]] = _credential(change)
    return credentials


def _credential(change: ScramCredentialUpsertion) -> str:
    if not _MIN_ITERATIONS <= change.iterations <= _MAX_ITERATIONS:
        raise UnacceptableCredential(
            f"{change.iterations} iterations are not taken, {_MIN_ITERATIONS} to {_MAX_ITERATIONS} are."
        )
    if not change.salt or not change.salted_password:
        raise UnacceptableCredential("A credential has a salt and a salted password.")
    digest = _HASHES[change.mechanism]
    client_key = hmac.digest(change.salted_password, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    server_key = hmac.digest(change.salted_password, b"Server Key", digest)
    parts = {"salt": change.salt, "stored_key": stored_key, "server_key": server_key}
    texts = ",".join(f"{name}={base64.b64encode(value).decode()}" for name, value in parts.items())
    return f"iterations={change.iterations},{texts}"
