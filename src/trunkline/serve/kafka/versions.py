"""ApiVersions (key 18), versions 0-4: what is served here, and nothing else.

Produce is listed from version 0 although older versions than 3 are refused, as Apache Kafka does (KAFKA-18659):
librdkafka picks its compression codecs from the range. A version that is not known gets the version 0 answer with
UNSUPPORTED_VERSION and the versions of ApiVersions itself (KIP-511), so that the client can try again. Features tell
what clients may use; before version 4 those that start at 0 are not shown, for clients that can not read that.
"""

from __future__ import annotations

from typing import Final

from trunkline.serve.kafka.call import ApiTable, Call
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.wire.kafka.messages.api_versions_request import ApiVersionsRequest
from trunkline.wire.kafka.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FEATURES: Final = {
    "group.version": (0, 1),
    "transaction.version": (0, 2),
}
"""The lowest and the highest level of each that is known; the highest is in use."""
_FEATURES_EPOCH: Final = 1


def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.version >= 3 and not (_plain(request.client_software_name) and _plain(request.client_software_version)):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = listing(call.apis, ErrorCode.NONE)
    if call.version >= 3:
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in FEATURES.items()
            if low > 0 or call.version >= 4
        ]
        response.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=high, max_version_level=high)
            for name, (_, high) in FEATURES.items()
        ]
        response.finalized_features_epoch = _FEATURES_EPOCH
    return response


def listing(apis: ApiTable, error: ErrorCode) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(
                api_key=api.key,
                min_version=api.min_version if api.listed_min_version is None else api.listed_min_version,
                max_version=api.max_version,
            )
            for api in apis.values()
        ],
    )


def _plain(name: str) -> bool:
    """Letters, digits, '-' and '.', and neither of these at either end: Kafka's rule for software names."""
    return (
        bool(name)
        and name.isascii()
        and name.replace("-", "").replace(".", "").isalnum()
        and name[0].isalnum()
        and name[-1].isalnum()
    )
