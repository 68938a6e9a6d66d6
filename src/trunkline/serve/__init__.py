"""Listeners and, per protocol, sessions that translate bytes into the broker's verbs and back."""
