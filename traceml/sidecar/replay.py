"""An entry that was kept, taken again: checked as it was when it first came."""

from traceml.sidecar.collector import Collector
from traceml.sidecar.refusal import ProtocolTooNewError
from traceml.wire import telemetry_pb2 as pb


def replay(collector: Collector, entry: pb.Entry) -> bool:
    """Let the collector take it; False if nothing of the kind can have been written.

    Files come from anywhere, so an error of ours costs one entry here, as one request does.
    """
    try:
        collector.check(entry)
        collector.apply(entry)
    except ProtocolTooNewError:  # it was refused when it came, too, and noted
        return True
    except Exception:
        return False
    return True
