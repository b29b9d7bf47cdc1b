"""What `make demo` runs: a training with a planted fault, and a look at its metrics meanwhile."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
LOGS = Path("logs")
SHOWN = (
    "traceml_steps_completed_total",
    'traceml_diagnosis_info{domain="step_time"',
    'traceml_straggler_lost_seconds_total{phase="dataloader"',
    "traceml_phase_worst_rank",
    'traceml_rank_phase_seconds{phase="dataloader"',
)
SCRAPE_CONFIG = """\
To have Prometheus scrape your own runs, let them announce themselves:

    traceml run train.py --sd-file /etc/prometheus/traceml/train.json

and point Prometheus at that folder:

    scrape_configs:
      - job_name: traceml
        file_sd_configs: [{files: [/etc/prometheus/traceml/*.json]}]
"""


def main() -> int:
    command = ["traceml", "run", str(HERE / "input_straggler.py"), "--nproc-per-node=2"]
    print("$", " ".join(command), "--run-name demo\n", flush=True)
    before = set(LOGS.glob("demo*/sidecar.json"))
    run = subprocess.Popen(
        [*command, "--run-name", "demo"], env={"OMP_NUM_THREADS": "1", **os.environ}
    )
    show_metrics(run, before)
    exit_code = run.wait()
    print(f"\n{SCRAPE_CONFIG}")
    return exit_code


def show_metrics(run: "subprocess.Popen[bytes]", before: set[Path]) -> None:
    """Print some of what Prometheus would see, once there is something to see."""
    while run.poll() is None:
        time.sleep(0.5)
        for file in set(LOGS.glob("demo*/sidecar.json")) - before:
            url = json.loads(file.read_text())["metrics"]
            lines = scrape(url)
            if any(line.startswith("traceml_phase_worst_rank") for line in lines):
                print(f"\n$ curl {url}", *lines, "  ...\n", sep="\n  ", flush=True)
                return


def scrape(url: str) -> list[str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            text: str = response.read().decode()
    except OSError:  # it is still starting
        return []
    return [line for line in text.splitlines() if line.startswith(SHOWN)]


if __name__ == "__main__":
    sys.exit(main())
