"""A real Alertmanager with the configuration that is shipped, and who it tells."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.launching import eventually, fetch
from traceml.publish.rules.generate import DEPLOY
from traceml.sidecar.listen import bind

Told = dict[str, Any]  # an alert as a webhook gets it


@dataclass
class Hook:
    """Whom Alertmanager tells: keeps every alert, with the path on which it came."""

    url: str = ""
    told: list[tuple[str, Told]] = field(default_factory=list)

    def about(self, alert: str, status: str = "firing", **labels: str) -> list[Told]:
        """The alerts of this name and these labels, oldest first."""
        return [
            told
            for _, told in list(self.told)
            if told["status"] == status
            and {"alertname": alert, **labels}.items() <= told["labels"].items()
        ]

    def first(self, alert: str, status: str = "firing", **labels: str) -> Told:
        """Wait for one."""
        return eventually(lambda: self.about(alert, status, **labels), seconds=90)[0]


@contextmanager
def hooked() -> Iterator[Hook]:
    """A server for webhooks."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.told += [(self.path, alert) for alert in json.loads(body)["alerts"]]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def running(program: str, folder: Path, hook: Hook) -> Iterator[str]:
    """Alertmanager as shipped, but told to hurry and to tell `hook`; yields its address."""
    shipped = (DEPLOY / "alertmanager.yml").read_text(encoding="utf-8")
    hurried = re.sub(r"(group_wait|group_interval): \w+", r"\1: 1s", shipped)
    config = folder / "alertmanager.yml"
    config.write_text(hurried.replace("http://127.0.0.1:9095", hook.url))
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [program, f"--config.file={config}", f"--storage.path={folder / 'alertmanager'}",
         f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}"
        eventually(lambda: fetch(f"{address}/-/ready"))
        yield address
    finally:
        process.terminate()
        process.wait()
