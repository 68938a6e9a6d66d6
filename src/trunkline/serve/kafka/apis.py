"""Every request that is served. ApiVersions lists just these; a request that is not here closes the connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trunkline.serve.kafka import (
    client_quotas,
    config_resources,
    configs,
    describe_topics,
    fetch,
    groups,
    metadata,
    offsets,
    one_node,
    positions,
    produce,
    producers,
    security,
    topics,
    versions,
)
from trunkline.serve.kafka.call import Api, ApiTable
from trunkline.wire.kafka.apis import APIS, ApiKey

_HANDLERS: Final[dict[ApiKey, Callable[..., Any]]] = {
    ApiKey.PRODUCE: produce.produce,
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: positions.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.OFFSET_COMMIT: offsets.offset_commit,
    ApiKey.OFFSET_FETCH: offsets.offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.API_VERSIONS: versions.api_versions,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: topics.delete_records,
    ApiKey.INIT_PRODUCER_ID: producers.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: positions.offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    ApiKey.OFFSET_DELETE: offsets.offset_delete,
    ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
    ApiKey.ALTER_CONFIGS: configs.alter_configs,
    ApiKey.LIST_CONFIG_RESOURCES: config_resources.list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topics.describe_topic_partitions,
    ApiKey.DESCRIBE_LOG_DIRS: one_node.describe_log_dirs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: one_node.alter_replica_log_dirs,
    ApiKey.ELECT_LEADERS: one_node.elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: one_node.alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: one_node.list_partition_reassignments,
    ApiKey.DESCRIBE_QUORUM: one_node.describe_quorum,
    ApiKey.UPDATE_FEATURES: one_node.update_features,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: client_quotas.describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: client_quotas.alter_client_quotas,
    ApiKey.DESCRIBE_ACLS: security.describe_acls,
    ApiKey.CREATE_ACLS: security.create_acls,
    ApiKey.DELETE_ACLS: security.delete_acls,
    ApiKey.CREATE_DELEGATION_TOKEN: security.create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: security.renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: security.expire_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: security.describe_delegation_token,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: security.describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: security.alter_user_scram_credentials,
}

_LISTED_MIN_VERSIONS: Final = {ApiKey.PRODUCE: 0}


def served() -> ApiTable:
    return {int(key): _api(key, handle) for key, handle in _HANDLERS.items()}


def _api(key: ApiKey, handle: Callable[..., Any]) -> Api:
    known = APIS[key]
    return Api(
        key=int(key),
        name=known.name,
        min_version=known.min_version,
        max_version=known.max_stable_version,
        handle=handle,
        listed_min_version=_LISTED_MIN_VERSIONS.get(key),
    )
