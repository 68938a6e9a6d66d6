-- A database as format 1 left it. Never edited: later versions must read it.
PRAGMA application_id = 1416784748;
PRAGMA user_version = 1;
CREATE TABLE cluster (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    cluster_id TEXT NOT NULL CHECK (typeof(cluster_id) = 'text' AND length(cluster_id) = 22),
    next_producer_id INTEGER NOT NULL
        CHECK (typeof(next_producer_id) = 'integer' AND next_producer_id >= 0)
);
CREATE TABLE topics (
    id BLOB NOT NULL PRIMARY KEY CHECK (typeof(id) = 'blob' AND length(id) = 16),
    name TEXT NOT NULL UNIQUE CHECK (typeof(name) = 'text'),
    partitions INTEGER NOT NULL CHECK (typeof(partitions) = 'integer' AND partitions > 0),
    internal INTEGER NOT NULL CHECK (internal IN (0, 1))
) WITHOUT ROWID;
CREATE TABLE topic_configs (
    topic_id BLOB NOT NULL REFERENCES topics (id) ON DELETE CASCADE,
    name TEXT NOT NULL CHECK (typeof(name) = 'text'),
    value TEXT NOT NULL CHECK (typeof(value) = 'text'),
    PRIMARY KEY (topic_id, name)
) WITHOUT ROWID;
CREATE TABLE deleted_topics (
    id BLOB NOT NULL PRIMARY KEY CHECK (typeof(id) = 'blob' AND length(id) = 16),
    name TEXT NOT NULL CHECK (typeof(name) = 'text'),
    partitions INTEGER NOT NULL CHECK (typeof(partitions) = 'integer' AND partitions > 0)
) WITHOUT ROWID;
CREATE TABLE configs (
    resource_type TEXT NOT NULL CHECK (typeof(resource_type) = 'text'),
    resource_name TEXT NOT NULL CHECK (typeof(resource_name) = 'text'),
    name TEXT NOT NULL CHECK (typeof(name) = 'text'),
    value TEXT NOT NULL CHECK (typeof(value) = 'text'),
    PRIMARY KEY (resource_type, resource_name, name)
) WITHOUT ROWID;
INSERT INTO cluster VALUES (1, 'q1Sh-9_ISia_zwGINzRvyQ', 4000);
INSERT INTO topics VALUES (X'8d1f0c2e5b6a4f3d9e7c1a2b3c4d5e6f', 'orders', 3, 0), (X'0a1b2c3d4e5f4a6b8c7d9e0f1a2b3c4d', '__offsets', 50, 1);
INSERT INTO topic_configs VALUES (X'8d1f0c2e5b6a4f3d9e7c1a2b3c4d5e6f', 'retention.ms', '1000'), (X'0a1b2c3d4e5f4a6b8c7d9e0f1a2b3c4d', 'cleanup.policy', 'compact');
INSERT INTO deleted_topics VALUES (X'11223344556647788990aabbccddeeff', 'old', 2);
INSERT INTO configs VALUES ('group', 'g', 'consumer.session.timeout.ms', '6000');
