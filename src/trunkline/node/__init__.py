"""The composition root: only here asyncio, files, sockets and the engine meet."""

from trunkline.node.run import run

__all__ = ["run"]
