"""Quotas without a broker: whose quota holds, and how long somebody waits who took too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.broker.configs import Configs
from trunkline.broker.quotas import ANONYMOUS, DEFAULT, WINDOW_SECONDS, Bucket, Entity, QuotaKey, Quotas
from trunkline.metadata.sqlite import SqliteMetadata

RATE = QuotaKey.PRODUCE.value


@pytest.fixture
def quotas() -> Quotas:
    return Quotas(Configs(SqliteMetadata.open(None)))


def wait(quotas: Quotas, client: str, amount: float, now: float = 0.0) -> float:
    return quotas.take(QuotaKey.PRODUCE, client, amount, now)


def test_without_a_quota_nobody_waits(quotas: Quotas) -> None:
    assert not quotas.active
    assert wait(quotas, "a", 1e12) == 0


def test_who_takes_more_than_the_window_holds_waits_until_it_is_paid(quotas: Quotas) -> None:
    quotas.set(Entity(client_id="a"), {RATE: 100.0})
    assert wait(quotas, "a", 1000) == 0
    assert wait(quotas, "a", 200) == pytest.approx(2.0)
    assert wait(quotas, "a", 0, now=2.0) == 0
    assert wait(quotas, "a", 100, now=2.0) == pytest.approx(1.0)
    assert wait(quotas, "b", 1e9) == 0


def test_nobody_is_told_to_wait_for_longer_than_the_window() -> None:
    assert Bucket(1, 0.0).take(1e9, 0.0) == WINDOW_SECONDS


def test_a_default_gives_each_client_a_bucket_of_its_own(quotas: Quotas) -> None:
    quotas.set(Entity(client_id=DEFAULT), {RATE: 100.0})
    assert wait(quotas, "a", 1100) > 0
    assert wait(quotas, "b", 1000) == 0


def test_the_quota_of_a_user_is_shared_by_its_clients(quotas: Quotas) -> None:
    quotas.set(Entity(user=ANONYMOUS), {RATE: 100.0})
    assert wait(quotas, "a", 1000) == 0
    assert wait(quotas, "b", 100) > 0


def test_the_most_particular_quota_holds(quotas: Quotas) -> None:
    levels = [
        Entity(client_id=DEFAULT),
        Entity(client_id="a"),
        Entity(user=DEFAULT),
        Entity(user=DEFAULT, client_id=DEFAULT),
        Entity(user=DEFAULT, client_id="a"),
        Entity(user=ANONYMOUS),
        Entity(user=ANONYMOUS, client_id=DEFAULT),
        Entity(user=ANONYMOUS, client_id="a"),
    ]
    for rate, entity in enumerate(levels, start=1):
        quotas.set(entity, {RATE: float(rate)})
        assert quotas.most_at_once(QuotaKey.PRODUCE, "a") == rate * WINDOW_SECONDS


def test_a_quota_that_is_taken_away_no_longer_holds(quotas: Quotas) -> None:
    quotas.set(Entity(client_id="a"), {RATE: 1.0})
    quotas.set(Entity(client_id="a"), {})
    assert not quotas.active
    assert wait(quotas, "a", 1e9) == 0


def test_other_users_quotas_are_not_for_those_who_did_not_sign_in(quotas: Quotas) -> None:
    quotas.set(Entity(user="somebody"), {RATE: 1.0})
    assert wait(quotas, "a", 1e9) == 0


@given(st.lists(st.tuples(st.floats(0, 5000), st.floats(0, 5)), min_size=1, max_size=50))
def test_who_waits_as_told_never_gets_more_than_the_rate_and_one_window(steps: list[tuple[float, float]]) -> None:
    rate, now, taken = 1000.0, 0.0, 0.0
    bucket = Bucket(rate, now)
    for amount, pause in steps:
        now += pause
        taken += amount
        now += bucket.take(amount, now)
        assert taken <= rate * (WINDOW_SECONDS + now) + 1e-3
