"""A real Prometheus, on a free port, for as long as a test needs it."""

import json
import subprocess
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.launching import fetch
from traceml.sidecar.listen import bind

CONFIG = """\
global: {{scrape_interval: {interval}s, scrape_timeout: {timeout}s, evaluation_interval: 1s}}
rule_files: {rules}
alerting: {{alertmanagers: [{{static_configs: [{{targets: {alertmanagers}}}]}}]}}
scrape_configs:
  - job_name: traceml
    {targets}
"""


def discovered(sd_file: Path) -> str:
    """Targets that a run announces."""
    return f'file_sd_configs: [{{files: ["{sd_file}"], refresh_interval: 1s}}]'


def fixed(port: int) -> str:
    """A target that is always looked for at the same place."""
    return f'static_configs: [{{targets: ["127.0.0.1:{port}"]}}]'


@contextmanager
def running(
    program: str,
    folder: Path,
    targets: str,
    interval: int = 1,
    rules: Sequence[Path] = (),
    alertmanager: str = "",
) -> Iterator[str]:
    """Prometheus over these targets; yields its address."""
    config = folder / "prometheus.yml"
    config.write_text(
        CONFIG.format(
            interval=interval,
            timeout=min(interval, 5),
            rules=json.dumps([str(rule) for rule in rules]),
            alertmanagers=json.dumps([alertmanager.removeprefix("http://")] * bool(alertmanager)),
            targets=targets,
        )
    )
    with started(program, config) as server:
        yield server


@contextmanager
def started(program: str, config: Path) -> Iterator[str]:
    """Prometheus with this configuration; yields its address."""
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [program, f"--config.file={config}", f"--storage.tsdb.path={config.parent / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def loaded(server: str) -> dict[str, list[dict[str, Any]]]:
    """The rules as Prometheus has read them, by group."""
    groups = json.loads(fetch(f"{server}/api/v1/rules"))["data"]["groups"]
    return {group["name"]: group["rules"] for group in groups}


def query(server: str, expression: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = ask(server, "query", query=expression)["result"]
    return answer


def ask(server: str, path: str, **given: str | float) -> Any:
    """What Prometheus's API says of this."""
    return json.loads(fetch(f"{server}/api/v1/{path}?{urllib.parse.urlencode(given)}"))["data"]
