import asyncio

import pytest

from traceml.sidecar.linger import MAX_LINGER_SECONDS, Linger

LIMIT = MAX_LINGER_SECONDS


@pytest.fixture
def linger() -> Linger:
    return Linger()


def test_nobody_is_waited_for_who_never_came(linger: Linger) -> None:
    assert linger.patience(expected=False, limit=LIMIT, now=0.0) == 0.0


def test_someone_who_was_told_where_to_look_is_waited_for(linger: Linger) -> None:
    assert linger.patience(expected=True, limit=LIMIT, now=0.0) == LIMIT


def test_a_scraper_is_waited_for_twice_its_interval(linger: Linger) -> None:
    for now in (0.0, 15.0, 30.0):
        linger.visit("prometheus", True, now)
    assert linger.patience(expected=False, limit=LIMIT, now=40.0) == 30.0


def test_a_scraper_that_came_once_is_waited_for_as_long_as_it_may_take(linger: Linger) -> None:
    linger.visit("prometheus", True, 0.0)
    assert linger.patience(expected=False, limit=LIMIT, now=1.0) == LIMIT


def test_who_looked_once_by_hand_is_not_waited_for(linger: Linger) -> None:
    linger.visit("curl", False, 0.0)
    assert linger.patience(expected=False, limit=LIMIT, now=1.0) == 0.0


def test_a_scraper_that_stayed_away_long_ago_is_not_waited_for(linger: Linger) -> None:
    for now in (0.0, 15.0):
        linger.visit("prometheus", True, now)
    assert linger.patience(expected=False, limit=LIMIT, now=3600.0) == 0.0


def test_no_wait_is_longer_than_its_limit(linger: Linger) -> None:
    for now in (0.0, 300.0):
        linger.visit("prometheus", True, now)
    assert linger.patience(expected=False, limit=LIMIT, now=301.0) == LIMIT
    assert linger.patience(expected=True, limit=0.0, now=301.0) == 0.0


def test_all_scrapers_have_to_come_once_more(linger: Linger) -> None:
    async def work() -> None:
        for who in ("a", "b"):
            for now in (0.0, 10.0):
                linger.visit(who, True, now)
        wait = asyncio.create_task(linger.wait(linger.patience(False, LIMIT, 11.0)))
        await asyncio.sleep(0)
        assert linger.is_on
        linger.visit("a", True, 12.0)
        await asyncio.sleep(0)
        assert not wait.done()
        linger.visit("b", True, 12.0)
        await asyncio.wait_for(wait, 5)

    asyncio.run(work())


def test_whoever_comes_ends_the_wait_for_someone_who_was_told(linger: Linger) -> None:
    async def work() -> None:
        wait = asyncio.create_task(linger.wait(linger.patience(True, LIMIT, 0.0)))
        await asyncio.sleep(0)
        linger.visit("prometheus", True, 1.0)
        await asyncio.wait_for(wait, 5)

    asyncio.run(work())


def test_strangers_do_not_fill_the_memory(linger: Linger) -> None:
    for number in range(10_000):
        linger.visit(f"stranger {number}", False, 0.0)
    assert len(linger._known) <= 100


def visits(linger: Linger, strangers: int, now: float) -> None:
    for number in range(strangers):
        linger.visit(f"stranger {number} at {now}", False, now)


def test_a_scraper_that_comes_after_many_strangers_is_waited_for(linger: Linger) -> None:
    visits(linger, 1_000, 0.0)
    linger.visit("prometheus", True, 1.0)
    assert linger.patience(expected=False, limit=LIMIT, now=2.0) == LIMIT


@pytest.mark.parametrize("times", [(0.0,), (0.0, 15.0)])
def test_strangers_do_not_displace_a_scraper(linger: Linger, times: tuple[float, ...]) -> None:
    for now in times:
        linger.visit("prometheus", True, now)
    alone = linger.patience(expected=False, limit=LIMIT, now=20.0)
    visits(linger, 1_000, 16.0)
    assert linger.patience(expected=False, limit=LIMIT, now=20.0) == alone > 0


def test_who_has_come_more_than_once_stays_without_the_header_too(linger: Linger) -> None:
    for now in (0.0, 15.0):
        linger.visit("agent", False, now)
    visits(linger, 1_000, 16.0)
    assert linger.patience(expected=False, limit=LIMIT, now=20.0) == 30.0


def test_scrapers_that_stay_away_make_room_for_new_ones(linger: Linger) -> None:
    for number in range(100):
        linger.visit(f"prometheus {number}", True, 0.0)
    linger.visit("prometheus", True, 3600.0)
    assert linger.patience(expected=False, limit=LIMIT, now=3601.0) == LIMIT


def test_scrapers_that_pretend_do_not_displace_one_that_is_known(linger: Linger) -> None:
    linger.visit("prometheus", True, 0.0)
    for number in range(1_000):
        linger.visit(f"pretender {number}", True, 1.0)
    linger.patience(expected=False, limit=LIMIT, now=2.0)
    assert "prometheus" in (linger._awaited or ())
