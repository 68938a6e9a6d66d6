"""Every request that is served. ApiVersions lists just these; a request that is not here closes the connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trunkline.serve.kafka import (
    configs,
    consumer_groups,
    fetch,
    groups,
    metadata,
    offsets,
    positions,
    produce,
    producers,
    topics,
    transaction_admin,
    transactions,
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
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    ApiKey.END_TXN: transactions.end_txn,
    ApiKey.WRITE_TXN_MARKERS: transaction_admin.write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
    ApiKey.DESCRIBE_PRODUCERS: transaction_admin.describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transaction_admin.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transaction_admin.list_transactions,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: positions.offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    ApiKey.OFFSET_DELETE: offsets.offset_delete,
    ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.consumer_group_describe,
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
