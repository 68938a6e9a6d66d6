"""Kafka's messages, one generated module each."""
