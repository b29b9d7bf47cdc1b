import errno
import os
import socket

import pytest

from traceml.sidecar.listen import PORT, address, bind, bind_at_once

NOT_OURS = os.strerror(errno.EADDRNOTAVAIL)


def test_the_usual_port_is_that_of_opentelemetrys_prometheus_exporter() -> None:
    assert PORT == 9464


def test_a_port_that_is_taken_is_passed_over_for_a_later_one() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with bind("127.0.0.1", port) as chosen:
            assert port < chosen.getsockname()[1] < port + 100


def test_port_zero_is_any_free_port() -> None:
    with bind("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0


def test_the_search_ends_with_the_last_port_there_is() -> None:
    with bind("127.0.0.1", 65_535), pytest.raises(OSError, match="in use") as error:
        bind("127.0.0.1", 65_535)
    assert error.value.errno == errno.EADDRINUSE


def test_an_address_that_is_not_this_hosts_is_an_error_at_once() -> None:
    with pytest.raises(OSError, match=NOT_OURS):
        bind("192.0.2.1", 9464)
    with pytest.raises(OSError, match=NOT_OURS):
        bind_at_once("192.0.2.1", 9464)


def test_a_port_that_somebody_has_is_not_had_at_once() -> None:
    with bind("127.0.0.1", 0) as taken:
        assert bind_at_once("127.0.0.1", taken.getsockname()[1]) is None


def test_nobody_who_holds_a_port_is_spoken_to() -> None:
    with bind("127.0.0.1", 0) as taken:
        bind("127.0.0.1", taken.getsockname()[1]).close()
        taken.setblocking(False)
        with pytest.raises(BlockingIOError):
            taken.accept()


def test_the_listener_accepts_connections() -> None:
    with bind("127.0.0.1", 0) as listener:
        socket.create_connection(listener.getsockname(), timeout=5).close()
        listener.accept()[0].close()


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", "127.0.0.1:9464"), ("::1", "[::1]:9464")]
)
def test_an_ipv6_host_stands_in_brackets(host: str, expected: str) -> None:
    assert address(host, 9464) == expected
