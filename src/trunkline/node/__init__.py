"""The composition root: only here asyncio, files, sockets and the engine meet."""
