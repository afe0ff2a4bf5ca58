"""The proxy before a real Redis: each command does what it says, and nothing else."""

import socket
import time

import pytest
import redis

from tests.waiting import wait_until


def client(url, **options):
    return redis.Redis.from_url(url, socket_timeout=options.pop("socket_timeout", 5), retry=None, **options)


@pytest.fixture
def direct(redis_url):
    with client(redis_url) as connection:
        yield connection


@pytest.fixture
def between(proxy, redis_url):
    return proxy(redis_url)


def test_it_passes_large_values_on_unchanged_both_ways(between, ns):
    value = bytes(range(256)) * 20_000
    with client(between.url) as far:
        far.set(ns, value)
        assert far.get(ns) == value
    assert between.held == 0


def test_held_bytes_reach_the_server_only_after_release(between, direct, ns):
    with client(between.url, socket_timeout=1) as far:
        far.set(ns, "before")
        between.hold("to-server")
        with pytest.raises(redis.TimeoutError):
            far.set(ns, "late")
    assert between.wait_held() > 0
    direct.set(ns, "meanwhile")
    between.release()
    wait_until(lambda: direct.get(ns) == b"late", what="the late write")
    assert between.held == 0


def test_held_bytes_arrive_in_order_although_their_sender_is_gone(between, direct, ns):
    with socket.create_connection(("127.0.0.1", between.port)) as raw:
        between.hold("to-server")
        for number in range(100):
            raw.sendall(f"RPUSH {ns} {number}\r\n".encode())
        sent = sum(len(f"RPUSH {ns} {number}\r\n") for number in range(100))
    wait_until(lambda: between.held == sent, what="all bytes held")
    assert direct.llen(ns) == 0
    between.release()
    wait_until(lambda: direct.llen(ns) == 100, what="the whole list")
    assert [int(value) for value in direct.lrange(ns, 0, -1)] == list(range(100))
    wait_until(lambda: between.connections == 0, what="the end of the connection")


def test_a_marker_chooses_the_moment_from_which_bytes_are_held(between, direct, ns):
    between.hold("to-server", marker=f"{ns}-commit".encode())
    with client(between.url, socket_timeout=1) as far:
        assert far.set(ns, "passes")
        with pytest.raises(redis.TimeoutError):
            far.set(f"{ns}-commit", "held")
        assert between.wait_held() > 0
        assert direct.exists(f"{ns}-commit") == 0
        between.release()
        wait_until(lambda: direct.exists(f"{ns}-commit"), what="the held write")


def test_held_replies_come_late_although_the_write_landed(between, direct, ns):
    with client(between.url, socket_timeout=1) as far:
        far.ping()
        between.hold("to-client")
        with pytest.raises(redis.TimeoutError):
            far.incr(ns)
    assert direct.get(ns) == b"1"
    assert between.held == len(b":1\r\n")


def test_a_dropped_reply_is_lost_although_the_write_landed(between, direct, ns):
    with client(between.url, socket_timeout=1) as far:
        far.ping()
        between.drop_replies()
        with pytest.raises(redis.TimeoutError):
            far.incr(ns)
        assert direct.get(ns) == b"1"
        assert between.dropped == len(b":1\r\n")
    between.release()
    with client(between.url) as far:
        assert far.incr(ns) == 2


def test_reset_ends_open_connections_with_an_error_and_new_ones_work(between, ns):
    with socket.create_connection(("127.0.0.1", between.port), timeout=5) as raw:
        raw.sendall(b"PING\r\n")
        assert raw.recv(100) == b"+PONG\r\n"
        between.reset()
        with pytest.raises(ConnectionResetError):
            raw.recv(100)
    assert between.connections == 0
    with client(between.url) as far:
        assert far.set(ns, 1)


def test_reset_forgets_what_was_held(between, direct, ns):
    between.hold("to-server")
    with socket.create_connection(("127.0.0.1", between.port)) as raw:
        raw.sendall(f"SET {ns} never\r\n".encode())
        between.wait_held()
        between.reset()
        assert between.held == 0
    between.release()
    with client(between.url) as far:
        far.ping()
    assert direct.get(ns) is None


def test_a_refusing_proxy_keeps_open_connections_and_accepts_on_the_same_port_again(between):
    with client(between.url) as known:
        known.ping()
        between.refuse()
        assert known.ping()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", between.port), timeout=5)
        between.accept()
        with client(between.url) as new:
            assert new.ping()


def test_a_delay_holds_for_each_way_and_ends(between):
    with client(between.url) as far:
        far.ping()
        between.delay(0.15)
        began = time.monotonic()
        far.ping()
        assert time.monotonic() - began >= 0.3
        between.delay(60)
        between.delay(0)
        assert far.ping()


def test_a_slowed_connection_takes_its_time_and_loses_nothing(between, ns):
    value = bytes(range(256)) * 40
    with client(between.url) as far:
        far.ping()
        between.slow(10_000)
        began = time.monotonic()
        far.set(ns, value)
        assert time.monotonic() - began >= 0.9
        between.slow(0)
        assert far.get(ns) == value


def test_a_spoiled_reply_has_one_other_bit_as_often_as_asked_for(between, ns):
    with client(between.url) as far:
        far.set(ns, "amount=1;")
        between.spoil("to-client", b"amount=", times=2)
        assert [far.get(ns) for _ in range(3)] == [b"amount=0;", b"amount=0;", b"amount=1;"]
    assert between.spoiled == 2


def test_a_server_that_is_down_looks_like_a_reset_connection(proxy, own_server):
    from tests.servers import Valkey

    server = own_server(Valkey)
    between = proxy(server.url)
    server.kill9()
    # The reset may come before the connection is reported as made.
    with pytest.raises(ConnectionResetError), socket.create_connection(("127.0.0.1", between.port), timeout=5) as raw:
        raw.recv(1)
