"""How many files and sockets the system lets this process have, and how many of them clients may take.

Without a bound here, a flood of connections would take the last handle, and the journal could not open its next file.
"""

from __future__ import annotations

from typing import Final

from trunkline.model.limits import ClientLimits

_OWN_FILES: Final = 64
"""Journal, checkpoint, metadata, listeners, HTTP clients, pipes."""
_LEAST_CONNECTIONS: Final = 8
_ENOUGH_FILES: Final = 1_048_576


def most_connections(log_files: int) -> int:
    """Raises the soft limit of open files as far as is allowed. `log_files`: what partitions may hold open."""
    try:
        import resource
    except ImportError:  # not on every platform
        return ClientLimits.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # a container may forbid it; the limit stays what it was
    if soft == resource.RLIM_INFINITY:
        return ClientLimits.connections
    return max(min(ClientLimits.connections, soft - log_files - _OWN_FILES), _LEAST_CONNECTIONS)
