"""Kafka's messages: compact tables, and a codec that compiles them per version on first use."""
