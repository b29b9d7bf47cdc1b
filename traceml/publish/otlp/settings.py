"""What the environment says of OTLP, as OpenTelemetry defines its variables.

Endpoints, headers, compression, time limits and certificates are read by the
exporters themselves; here is what decides whether there are any, and which.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from traceml.masking import MASK, mask_text

GRPC, HTTP = "grpc", "http/protobuf"
METRICS, TRACES = "metrics", "traces"
SIGNALS = (METRICS, TRACES)

CUMULATIVE, DELTA, LOW_MEMORY = "cumulative", "delta", "lowmemory"
_TEMPORALITIES = (CUMULATIVE, DELTA, LOW_MEMORY)

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_HEADERS = "_HEADERS"  # what they hold is secret
_GRPC_PORT = 4317
_INTERVAL_SECONDS = 60.0
_MIN_INTERVAL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Settings:
    """What to send, how, and how often; no protocols: nothing."""

    protocols: Mapping[str, str]  # by signal
    interval_seconds: float = _INTERVAL_SECONDS
    temporality: str = CUMULATIVE
    problems: tuple[str, ...] = ()  # what could not be used, and is as if it were not set

    @property
    def is_on(self) -> bool:
        """Whether anything is to be sent."""
        return bool(self.protocols)


def for_exporters(environment: Mapping[str, str], endpoint: str | None) -> dict[str, str]:
    """The environment that the exporters should see: all go to that endpoint, if one is given."""
    hidden = set()
    if any(name.endswith("_CERTIFICATE") and name.startswith("OTEL_") for name in environment):
        hidden |= {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}  # `requests` would believe these first
    if endpoint is not None:
        hidden |= {_variable(signal, "ENDPOINT") for signal in SIGNALS}
    rest = {name: value for name, value in environment.items() if name not in hidden}
    return rest if endpoint is None else {**rest, _ENDPOINT: endpoint}


def read(environment: Mapping[str, str]) -> Settings:
    """The settings; OTLP is off unless there is an endpoint."""
    given = {name: value.strip() for name, value in environment.items() if value.strip()}
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Settings({})
    problems: list[str] = []
    protocols = {}
    for signal in SIGNALS:
        try:
            protocol = _protocol(given, signal)
        except ValueError as error:
            problems.append(str(error))
            continue
        if protocol is not None:
            protocols[signal] = protocol
    problems += _unusable(given)
    return Settings(
        protocols, _interval(given, problems), _temporality(given, problems), tuple(problems)
    )


def check_endpoint(endpoint: str) -> str:
    """The endpoint, if it can be one; ValueError if not."""
    try:
        parts = urlsplit(endpoint)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # ValueError for what is no port
    except ValueError:
        is_sound = False
    if not is_sound:
        raise ValueError("must be a URL such as http://localhost:4317")
    return endpoint


def _protocol(given: Mapping[str, str], signal: str) -> str | None:
    """How a signal is sent; None if it is not."""
    variable = _variable(signal, "ENDPOINT")
    variable = variable if variable in given else _ENDPOINT
    endpoint = given.get(variable)
    if not endpoint or given.get(f"OTEL_{signal.upper()}_EXPORTER", "").lower() == "none":
        return None
    try:
        check_endpoint(endpoint)
    except ValueError as error:
        shown = mask_text(endpoint)
        raise ValueError(f"{variable}={shown}: no {signal} are sent; it {error}") from None
    for variable in (_variable(signal, "PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if variable in given:
            if given[variable] not in (GRPC, HTTP):
                raise ValueError(
                    f"{variable}={given[variable]}: no {signal} are sent; {GRPC} and {HTTP} can be"
                )
            return given[variable]
    return GRPC if urlsplit(endpoint).port == _GRPC_PORT else HTTP


def _unusable(given: Mapping[str, str]) -> list[str]:
    """What the exporters would leave out without a word."""
    return [
        f"{name}={MASK if end == _HEADERS else value}: {why}"
        for name, value in given.items()
        for end, (is_sound, why) in _CHECKS.items()
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith(end) and not is_sound(value)
    ]


def _is_seconds(value: str) -> bool:
    try:
        return 0 < float(value) < float("inf")
    except ValueError:
        return False


def _is_compression(value: str) -> bool:
    return value.lower() in ("none", "gzip", "deflate")


def _are_headers(value: str) -> bool:
    return all("=" in part for part in value.split(",") if part.strip())


_CHECKS = {
    "_TIMEOUT": (_is_seconds, "no number of seconds"),
    "_COMPRESSION": (_is_compression, "none of none, gzip, deflate"),
    _HEADERS: (_are_headers, "no NAME=VALUE,..."),
}


def _interval(given: Mapping[str, str], problems: list[str]) -> float:
    name = "OTEL_METRIC_EXPORT_INTERVAL"
    try:
        seconds = float(given.get(name, _INTERVAL_SECONDS * 1000)) / 1000
    except ValueError:
        seconds = 0.0
    if _MIN_INTERVAL_SECONDS <= seconds < float("inf"):
        return seconds
    problems.append(f"{name}={given[name]}: no number of milliseconds from 100 on; 60000 is used")
    return _INTERVAL_SECONDS


def _temporality(given: Mapping[str, str], problems: list[str]) -> str:
    name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
    preference = given.get(name, CUMULATIVE).lower()
    if preference in _TEMPORALITIES:
        return preference
    problems.append(f"{name}={given[name]}: none of {', '.join(_TEMPORALITIES)}")
    return CUMULATIVE


def _variable(signal: str, what: str) -> str:
    return f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}"
