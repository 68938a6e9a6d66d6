"""The durable log: journal, segments, indexes, recovery, retention, producers. Disk and clock come in from outside."""
