"""The one error of the client commands: text for people, exit status 1, no traceback."""

from __future__ import annotations


class Failure(Exception):
    """Says what did not work, on what, and what to do."""
