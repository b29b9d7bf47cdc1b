"""A real server on a real socket, asked with the standard library's client."""

import asyncio
import gzip
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.builders import golden_run
from traceml.publish.catalogue import CATALOGUE
from traceml.publish.exposition import Form
from traceml.publish.prometheus import Exposition
from traceml.sidecar.http import Server, app
from traceml.sidecar.linger import Linger
from traceml.sidecar.listen import bind

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
# As Prometheus 2.42 sends it.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,"
    "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
CLASSIC = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Site:
    """A server, and what it serves."""

    listener: socket.socket
    exposition: Exposition = field(default_factory=Exposition)
    linger: Linger = field(default_factory=Linger)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def get(
        self, path: str, accept: str = "", encoding: str = "", method: str = "GET", **more: str
    ) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"accept": accept, "accept-encoding": encoding, **more}
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        reply = Reply(response.status, headers, response.read())
        connection.close()
        return reply


@pytest.fixture
def bare() -> Iterator[Site]:
    """Before the first Snapshot."""
    listener = bind("127.0.0.1", 0)
    site = Site(listener)
    server = Server(app(site.exposition, site.linger))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    yield site
    server.should_exit = True
    thread.join()


@pytest.fixture
def site(bare: Site) -> Site:
    bare.exposition.show(golden_run())
    return bare


def test_a_scraper_without_wishes_gets_classic_text(site: Site) -> None:
    reply = site.get("/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"] == CLASSIC
    assert "content-encoding" not in reply.headers
    names = [family.name for family in parse_text(reply.text)]
    assert names == [metric.name for metric in CATALOGUE]


@pytest.mark.parametrize("accept", [OPENMETRICS, PROMETHEUS])
def test_a_scraper_that_accepts_openmetrics_gets_it(accept: str, site: Site) -> None:
    reply = site.get("/metrics", accept=accept)
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = list(parse_openmetrics(reply.text))  # type: ignore[no-untyped-call]
    assert [family.name for family in families] == [metric.name for metric in CATALOGUE]
    assert [family.unit for family in families] == [metric.unit for metric in CATALOGUE]


@pytest.mark.parametrize("accept", ["text/plain; version=x", "application/json", ";;,"])
def test_a_wish_that_cannot_be_met_gets_classic_text(accept: str, site: Site) -> None:
    reply = site.get("/metrics", accept=accept)
    assert reply.status == 200
    assert reply.headers["content-type"] == CLASSIC


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_a_scraper_that_accepts_gzip_gets_the_same_zipped(accept: str, site: Site) -> None:
    plain = site.get("/metrics", accept=accept)
    reply = site.get("/metrics", accept=accept, encoding="gzip, br")
    assert reply.headers["content-encoding"] == "gzip"
    assert reply.headers["content-type"] == plain.headers["content-type"]
    assert gzip.decompress(reply.body) == plain.body
    assert len(reply.body) < len(plain.body) / 4


def test_no_part_of_an_answer_waits_until_the_one_before_is_confirmed(site: Site) -> None:
    site.get("/metrics")
    assert site.listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)  # connections inherit


def test_caches_are_told_what_the_answer_depends_on(site: Site) -> None:
    assert site.get("/metrics").headers["vary"] == "accept, accept-encoding"


def test_nothing_is_served_before_the_first_snapshot(bare: Site) -> None:
    for path in ("/metrics", "/readyz"):
        reply = bare.get(path)
        assert (reply.status, reply.text) == (503, "not ready\n")


def test_the_sidecar_is_alive_before_it_is_ready(bare: Site) -> None:
    reply = bare.get("/healthz")
    assert (reply.status, reply.text) == (200, "alive\n")


def test_the_sidecar_is_ready_with_its_first_snapshot(site: Site) -> None:
    reply = site.get("/readyz")
    assert (reply.status, reply.text) == (200, "ready\n")


def test_a_path_that_is_not_there_is_not_found(site: Site) -> None:
    assert site.get("/nothing").status == 404


def test_metrics_can_only_be_read(site: Site) -> None:
    assert site.get("/metrics", method="POST").status == 405


def test_a_snapshot_is_rendered_once_per_format_however_many_scrapers_ask(
    site: Site, renderings: list[Form]
) -> None:
    for encoding in ("", "gzip", "gzip"):
        site.get("/metrics", encoding=encoding)
        site.get("/metrics", accept=OPENMETRICS, encoding=encoding)
        site.get("/metrics", accept=OPENMETRICS.replace("1.0.0", "1.0.1"), encoding=encoding)
    assert len(renderings) == 2


def test_a_new_snapshot_is_rendered_anew(site: Site, renderings: list[Form]) -> None:
    before = site.get("/metrics").text
    site.exposition.show(replace(golden_run(), ranks_expected=7))
    assert len(renderings) == 2
    after = site.get("/metrics").text
    assert len(renderings) == 2  # it was ready before it was asked for
    assert 'traceml_ranks_expected{run="demo"} 2.0' in before
    assert 'traceml_ranks_expected{run="demo"} 7.0' in after


def test_a_web_page_that_has_its_name_resolve_to_this_machine_reads_nothing(site: Site) -> None:
    for path in ("/metrics", "/healthz", "/nothing"):
        reply = site.get(path, host="evil.example:9464")
        assert (reply.status, reply.text) == (421, "not the name of this machine\n")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "10.1.2.3:9464", "[::1]:9464"])
def test_whoever_names_this_machine_or_an_address_is_answered(host: str, site: Site) -> None:
    assert site.get("/healthz", host=host).status == 200


def test_a_scraper_that_refuses_gzip_gets_plain_text(site: Site) -> None:
    reply = site.get("/metrics", encoding="gzip;q=0, *")
    assert "content-encoding" not in reply.headers
    assert reply.text == site.get("/metrics").text
