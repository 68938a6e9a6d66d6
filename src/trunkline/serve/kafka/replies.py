"""Asks the groups and waits where the answer has to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from trunkline.coordination.commands import Command, Reply, Ticket
from trunkline.serve.kafka.call import Call

R = TypeVar("R", bound=Reply)


async def reply_to(call: Call, command: Callable[[Ticket], Command], kind: type[R]) -> R:
    result = call.broker.groups.ask(command)
    reply = await result if isinstance(result, asyncio.Future) else result
    assert isinstance(reply, kind)
    return reply
