"""The queue of deadlines against the plainest thing that does the same: a dictionary searched through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trunkline.coordination.deadlines import Deadlines, Key, Timeout
from trunkline.model.ids import GroupId, MemberId

keys = st.sampled_from([Key(GroupId("g"), Timeout.SESSION, MemberId(str(index))) for index in range(6)])
steps = st.lists(
    st.tuples(st.sampled_from(["set", "forward", "cancel", "due"]), keys, st.integers(0, 50)), max_size=300
)


@given(steps)
def test_it_gives_what_is_due_and_nothing_else(steps: list[tuple[str, Key, int]]) -> None:
    deadlines, model, now_ms = Deadlines(), dict[Key, int](), 0
    for step, key, ms in steps:
        if step == "set":
            deadlines.set(key, now_ms + ms)
            model[key] = now_ms + ms
        elif step == "forward":
            deadlines.bring_forward(key, now_ms + ms)
            model[key] = min(model.get(key, now_ms + ms), now_ms + ms)
        elif step == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            now_ms += ms
            due = {key for key, at_ms in model.items() if at_ms <= now_ms}
            taken = list(deadlines.take_due(now_ms))
            assert set(taken) == due
            assert len(taken) == len(due)
            assert [model[key] for key in taken] == sorted(model[key] for key in taken)
            for key in due:
                del model[key]
        assert deadlines.next_ms() == min(model.values(), default=None)


def test_heartbeats_and_cancelled_deadlines_do_not_pile_up() -> None:
    deadlines = Deadlines()
    for index in range(20_000):
        key = Key(GroupId("g"), Timeout.SESSION, MemberId(str(index)))
        deadlines.set(key, 10**9 + index)
        deadlines.set(key, 10**9)
        deadlines.cancel(key)
    kept = Key(GroupId("kept"), Timeout.SESSION)
    for beat in range(20_000):
        deadlines.set(kept, beat)
    assert len(deadlines._heap) < 1_000
    assert list(deadlines.take_due(19_999)) == [kept]
