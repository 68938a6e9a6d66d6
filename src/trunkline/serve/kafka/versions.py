"""ApiVersions (key 18), versions 0-4: what is served here, and nothing else.

Produce is listed from version 0 although older versions than 3 are refused, as Apache Kafka does (KAFKA-18659):
librdkafka picks its compression codecs from the range. A version that is not known gets the version 0 answer with
UNSUPPORTED_VERSION and the list, as the protocol guide asks, so that the client can try again. No features are listed:
a client then uses neither transactions of version 2 nor the new group protocol.
"""

from __future__ import annotations

from trunkline.serve.kafka.call import ApiTable, Call
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.serve.kafka.features import FEATURES
from trunkline.wire.kafka.messages.api_versions_request import ApiVersionsRequest
from trunkline.wire.kafka.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.version >= 3 and not (_plain(request.client_software_name) and _plain(request.client_software_version)):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return listing(call.apis, ErrorCode.NONE)


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
        supported_features=[
            SupportedFeatureKey(name=name, min_version=level, max_version=level) for name, level in FEATURES.items()
        ],
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in FEATURES.items()
        ],
        finalized_features_epoch=1 if FEATURES else -1,
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
