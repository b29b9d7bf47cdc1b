import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml.publish.rules.duration import Duration
from traceml.publish.rules.options import Options, parse_base, parse_label, parse_share
from traceml.publish.rules.selector import Selector


@pytest.mark.parametrize(
    ("text", "seconds", "written"),
    [
        ("90s", 90, "1m30s"),
        ("1h30m", 5400, "1h30m"),
        ("500ms", 0.5, "500ms"),
        ("1w", 604_800, "7d"),
        ("1y2w3d4h5m6s7ms", 33_019_506.007, "382d4h5m6s7ms"),
    ],
)
def test_durations_are_read_as_prometheus_reads_them(
    text: str, seconds: float, written: str
) -> None:
    duration = Duration.parse(text)
    assert duration.seconds == seconds
    assert str(duration) == written


@given(st.integers(min_value=1, max_value=10**12))
def test_what_is_written_is_read_as_the_same(ms: int) -> None:
    assert Duration.parse(str(Duration(ms))) == Duration(ms)


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "-5m", "1.5h", "30s1m", "0s", "\u0665m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        Duration.parse(text)


def test_half_of_the_shortest_duration_is_still_one() -> None:
    assert str(Duration(1).times(0.1)) == "1ms"


def test_a_selector_goes_into_every_series_and_into_nothing_else() -> None:
    selector = Selector.parse('job="training", cluster=~"a|b"')
    given = 'sum(rate(traceml_x_total[5m])) > run_rank:traceml_y:ratio{rank="1"} and up == 0'
    assert selector.into(given) == (
        'sum(rate(traceml_x_total{job="training",cluster=~"a|b"}[5m])) > '
        'run_rank:traceml_y:ratio{job="training",cluster=~"a|b",rank="1"} and up == 0'
    )
    assert selector.labels == ("job", "cluster")


def test_labels_of_a_selector_stay_beside_the_run() -> None:
    options = Options(Selector.parse('run=~"prod-.*",cluster!="",cluster!="old"'))
    assert options.expression("sum by ($run, rank) (x)") == "sum by (run, cluster, rank) (x)"
    assert options.text("$arguments") == "$labels.run $labels.cluster"


def test_a_label_is_grouped_by_once() -> None:
    options = Options(Selector.parse('job="training"'))
    assert options.expression("$run_and_target") == "run, job, instance"
    assert options.expression("$target") == "job, instance"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("job", "cannot read 'job'"),
        ("job=training", "cannot read"),
        ('{job="x"}', "cannot read"),
        ('job="x" cluster="y"', "cannot read"),
        ('job=="x"', "cannot read"),
        ('job="x', "cannot read"),
        ('instance="a:1"', "differs from node to node"),
        ('rank="1"', "not on every series"),
        ('phase!="other"', "not on every series"),
        ('__name__="x"', "not on every series"),
        (r'job=~"\d+"', "a backslash is written twice"),
        ('job=~"a(?=b)"', "know no such group"),
        ('job=~"("', "no regular expression"),
        ('job="`"', "backquote"),
    ],
)
def test_what_is_no_selector_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        Selector.parse(text)


def test_no_selector_is_one_too() -> None:
    assert Selector.parse("") == Selector()


@pytest.mark.parametrize("text", ["team", "team=", "=ml", "1team=ml", "te-am=ml", "__team=ml"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no label"):
        parse_label(text)


@pytest.mark.parametrize("name", ["severity", "alertname", "run", "rank", "phase"])
def test_a_label_that_says_something_already_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="already"):
        parse_label(f"{name}=x")


def test_a_label_s_value_may_hold_anything() -> None:
    assert parse_label("note=a=b, c") == ("note", "a=b, c")


@pytest.mark.parametrize("text", ["0", "-0.1", "0.6", "nan", "inf", "much"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no share"):
        parse_share(text)


@pytest.mark.parametrize("base", ["https://wiki.example.org/x", "https://wiki.example.org/x/"])
def test_runbooks_are_below_their_base(base: str) -> None:
    assert Options(runbook_base=base).runbook("A") == "https://wiki.example.org/x/A.md"


@pytest.mark.parametrize("text", ["", "a b", "{{ x }}", '"'])
def test_what_is_no_base_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no URL"):
        parse_base(text)
