"""Pieces that alerts are put together from: conditions that recur, and lookups in their texts."""

RUNNING = 'traceml_run_state{state="running"} == 1'


def lately(series: str) -> str:
    """The last value, also where a scrape or two have failed: `for` would begin anew."""
    return f"last_over_time({series}[$grace])"


WAS_RUNNING = f"{lately(RUNNING.removesuffix(' == 1'))} == 1"


# What the last steps said is no news once there are no more of them.
_STANDS = (
    "time() - traceml_last_step_timestamp_seconds "
    "> on ($sidecar) clamp_min(3 * traceml_step_median_seconds, 60)"
)


def held(domain: str, state: str) -> str:
    """A rule of the sidecar's that holds, and is no mere information, on any node of the run.

    A rule whose evidence is weak holds at most as information: then the score alone is
    not enough.
    """
    score = f'traceml_diagnosis_score{{domain="{domain}",state="{state}"}}'
    severity = f'traceml_diagnosis_severity{{domain="{domain}"}}'
    return (
        "max by ($run) (\n"
        f"  {lately(score)} >= 1\n"
        f"  and on ($sidecar) {lately(severity)} >= 1\n"
        f"  and on ($sidecar) {WAS_RUNNING}\n"
        f"  unless on ($sidecar) {_STANDS}\n"
        ")"
    )


def ask(query: str, *labels: str) -> str:
    """A lookup within a text, of the alert's own run; `query` has a %q for each of `labels`."""
    given = " ".join(f"$labels.{label}" for label in labels)
    return f"printf `{query}` $arguments{f' {given}' if given else ''} | query"


def first(query: str, shown: str, *labels: str) -> str:
    """What is shown of the first that a lookup finds; nothing if it finds none."""
    found = ask(query, *labels)
    return f"{{{{ with {found} }}}}{{{{ with first . }}}}{shown}{{{{ end }}}}{{{{ end }}}}"


def each(query: str, shown: str, *labels: str) -> str:
    """What is shown of all that a lookup finds, with commas."""
    return (
        f"{{{{ range $i, $each := {ask(query, *labels)} }}}}{{{{ if $i }}}}, {{{{ end }}}}"
        f"{shown}{{{{ end }}}}"
    )


def shares(phases: str) -> str:
    """What these phases take of the typical step."""
    return each(
        f'sort_desc(run_phase:traceml_phase_share_ratio{{$matching,phase=~"{phases}"}})',
        "{{ $each.Labels.phase }} {{ $each.Value | humanizePercentage }}",
    )


# Where a rank is, for whoever has to log in there.
WHERE = first(
    "traceml_rank_info{$matching,rank=%q}",
    " (node {{ .Labels.node }}, {{ .Labels.instance }})",
    "rank",
)
