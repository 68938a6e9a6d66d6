"""Groups on the event loop that a real node runs on (tests inside one process run on asyncio's own)."""

from __future__ import annotations

import pytest

from trunkline.coordination.commands import GroupList, ListGroups
from trunkline.model.settings import Address, Settings
from trunkline.node.node import Node

uvloop = pytest.importorskip("uvloop")


def test_a_deadline_that_is_due_already_does_not_fail_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_twice() -> None:
        node = Node(Settings(memory=True, kafka=Address("127.0.0.1", 0), amqp=None, redis=None, http=None))
        await node.start()
        groups = node.broker.groups
        monkeypatch.setattr(groups._coordinator, "next_deadline_ms", lambda: 0)
        try:
            for _ in range(2):
                assert groups.ask(ListGroups) == GroupList(())
        finally:
            monkeypatch.undo()
            await node.stop()

    uvloop.run(ask_twice())
