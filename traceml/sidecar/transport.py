"""What gRPC may hold for callers, before and after it is known who they are.

A caller without a token costs a connection and a window's worth of bytes, and no more.
"""

import resource

from traceml.sidecar.limits import MAX_LOCAL_RANKS
from traceml.wire import MAX_MESSAGE_BYTES

MAX_CONNECTIONS = 2 * MAX_LOCAL_RANKS  # all ranks of a node, and those that they replace
MAX_CALLS = MAX_CONNECTIONS  # a rank has one in flight
MAX_CALLS_OF_A_CONNECTION = 128  # a rank has one; those of one process may share a connection
HANDSHAKE_SECONDS = 10
IDLE_SECONDS = 30  # ranks speak each second
_WINDOW_BYTES = 64 * 2**10  # of a request that nobody has asked for yet; most fit in
_OTHER_DESCRIPTORS = 256  # of the journal, scrapers and all else


def options() -> list[tuple[str, int]]:
    """The arguments of a server."""
    return [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_metadata_size", 16 * 2**10),
        ("grpc.max_allowed_incoming_connections", _connections()),
        ("grpc.max_concurrent_streams", MAX_CALLS_OF_A_CONNECTION),
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),  # or the window grows with what is sent
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1000),
        ("grpc.max_connection_idle_ms", IDLE_SECONDS * 1000),
        ("grpc.so_reuseport", 0),  # or a second sidecar would share the port without a word
    ]


def _connections() -> int:
    """As many as a node needs, while descriptors are left for the sidecar's own files."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(descriptors - _OTHER_DESCRIPTORS, descriptors // 2))
