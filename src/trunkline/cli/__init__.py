"""The `trunkline` command. `serve` starts a node; all else talks to a broker over the wire, Apache Kafka included."""
