import pytest

from traceml.publish.otlp.settings import check_endpoint, for_exporters, read

GENERAL = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def test_without_an_endpoint_nothing_is_sent() -> None:
    assert not read({"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_ENDPOINT": " "}).is_on


def test_the_sdk_can_be_disabled() -> None:
    assert not read({**GENERAL, "OTEL_SDK_DISABLED": "True"}).is_on


def test_each_signal_has_its_own_variables() -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://a:9999",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc",
    }
    assert read(environment).protocols == {"metrics": "grpc"}
    environment |= {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b/v1/traces"}
    assert read(environment).protocols == {"metrics": "grpc", "traces": "http/protobuf"}


def test_a_signal_can_be_left_out() -> None:
    assert set(read({**GENERAL, "OTEL_TRACES_EXPORTER": "none"}).protocols) == {"metrics"}


@pytest.mark.parametrize(
    ("endpoint", "protocol"),
    [
        ("http://collector:4317", "grpc"),
        ("http://collector:4318", "http/protobuf"),
        ("https://ingest.example.com/otlp", "http/protobuf"),
    ],
)
def test_the_usual_port_of_grpc_means_grpc(endpoint: str, protocol: str) -> None:
    settings = read({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    assert settings.protocols == {"metrics": protocol, "traces": protocol}


def test_what_cannot_be_used_is_said_and_left_out() -> None:
    settings = read(
        {
            **GENERAL,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
            "OTEL_METRIC_EXPORT_INTERVAL": "soon",
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "sideways",
        }
    )
    assert settings.protocols == {"metrics": "http/protobuf"}
    assert settings.interval_seconds == 60
    assert settings.temporality == "cumulative"
    assert [problem.split("=")[0] for problem in settings.problems] == [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_METRIC_EXPORT_INTERVAL",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    ]


@pytest.mark.parametrize("endpoint", ["collector:4317", "http://collector:port"])
def test_an_endpoint_that_is_no_url_is_said_and_nothing_is_sent(endpoint: str) -> None:
    settings = read({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    assert not settings.is_on
    assert all("must be a URL such as" in problem for problem in settings.problems)
    assert len(settings.problems) == 2


def test_what_the_exporters_would_leave_out_without_a_word_is_said() -> None:
    wrong = {
        "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
        "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "zip",
        "OTEL_EXPORTER_OTLP_HEADERS": "token",
    }
    right = {
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b,c=d",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "3",
    }
    settings = read({**GENERAL, **wrong, **right})
    assert [problem.split("=")[0] for problem in settings.problems] == list(wrong)


def test_what_is_said_of_a_setting_names_no_secret() -> None:
    settings = read(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "htp://ada:hunter2@collector",
            "OTEL_EXPORTER_OTLP_HEADERS": "Authorization: Bearer hunter2",
        }
    )
    assert len(settings.problems) == 3
    assert "hunter2" not in "".join(settings.problems)


def test_the_interval_is_in_milliseconds() -> None:
    assert read({**GENERAL, "OTEL_METRIC_EXPORT_INTERVAL": "2500"}).interval_seconds == 2.5


def test_the_flag_beats_every_endpoint_of_the_environment() -> None:
    before = {**GENERAL, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://other", "PATH": "/bin"}
    after = for_exporters(before, "http://mine:4317")
    assert after == {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://mine:4317", "PATH": "/bin"}
    assert for_exporters(before, None) == before


def test_a_certificate_of_otlp_s_own_beats_that_of_all_requests() -> None:
    general = {"REQUESTS_CA_BUNDLE": "a.pem", "CURL_CA_BUNDLE": "b.pem"}
    own = {"OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE": "c.pem"}
    assert for_exporters(general, None) == general
    assert for_exporters({**general, **own}, None) == own


@pytest.mark.parametrize("wrong", ["collector:4317", "ftp://x", "http://", "http://x:port"])
def test_a_flag_that_is_no_url_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="must be a URL"):
        check_endpoint(wrong)
