"""Messages that are almost right, straight into the collector."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import Clock, hello_request, look, make_collector, make_identity, timed_records
from traceml.sidecar.refusal import RefusedError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode

HELLO = pb.Entry(hello=hello_request("s", make_identity(0, 2)))
PUSH = pb.Entry(
    push=pb.PushRequest(
        session="s",
        heartbeat=pb.Heartbeat(step=3, phase="forward", notes=["a note"]),
        batch=encode(timed_records(range(5)), 1),
    )
)

flips = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6)


def altered(entry: pb.Entry, changes: list[tuple[int, int]]) -> pb.Entry | None:
    data = bytearray(entry.SerializeToString())
    for place, byte in changes:
        data[place % len(data)] = byte
    try:
        return pb.Entry.FromString(bytes(data))
    except Exception:  # protobuf's own; the border refuses it
        return None


@settings(max_examples=400, deadline=None)
@example([], [(0, 42)])  # a push that becomes a start, with thresholds that are none
@given(flips, flips)
def test_a_message_with_altered_bytes_is_taken_or_refused_and_never_an_error(
    hello_changes: list[tuple[int, int]], push_changes: list[tuple[int, int]]
) -> None:
    collector = make_collector(Clock())
    for entry in (altered(HELLO, hello_changes), HELLO, altered(PUSH, push_changes), PUSH):
        if entry is None:
            continue
        try:
            collector.check(entry)
            if entry.WhichOneof("what") == "push":
                collector.strip(entry.push)
            collector.apply(entry)
        except RefusedError:
            continue
    look(collector)
