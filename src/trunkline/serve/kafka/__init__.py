"""The Kafka face: a session per connection, one error table, a file per request family."""
