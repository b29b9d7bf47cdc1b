"""Two machines to run a job on: network namespaces joined by a cable, or two loopback addresses."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CABLE = "eth0"
_NAMESPACES = Path("/run/netns")


@dataclass(frozen=True)
class Node:
    """Where a part of the job runs."""

    number: int
    address: str
    interface: str
    namespace: str = ""  # empty where only the address makes the difference

    @property
    def enter(self) -> list[str]:
        """What stands before a command that runs there."""
        return ["ip", "netns", "exec", self.namespace] if self.namespace else []

    def plug(self, *, connected: bool) -> None:
        """Put its cable in, or pull it out."""
        _ip("-n", self.namespace, "link", "set", self.interface, "up" if connected else "down")


@contextmanager
def two_nodes() -> Iterator[tuple[Node, Node]]:
    """Namespaces without a way out of this machine; addresses where those are not to be had."""
    names = [f"traceml-{os.getpid()}-{number}" for number in (0, 1)]
    nodes = [Node(number, f"10.77.0.{number + 1}", _CABLE, names[number]) for number in (0, 1)]
    try:
        if _connect(nodes):
            yield nodes[0], nodes[1]
        else:
            yield Node(0, "127.0.0.2", "lo"), Node(1, "127.0.0.3", "lo")
    finally:
        for name in names:
            if (_NAMESPACES / name).exists():
                _ip("netns", "delete", name)


def _connect(nodes: list[Node]) -> bool:
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    first, second = nodes
    try:
        for node in nodes:
            _ip("netns", "add", node.namespace)
        _ip("link", "add", _CABLE, "netns", first.namespace, "type", "veth",
            "peer", "name", _CABLE, "netns", second.namespace)  # fmt: skip
        for node in nodes:
            _ip("-n", node.namespace, "address", "add", f"{node.address}/30", "dev", _CABLE)
            for interface in ("lo", _CABLE):
                _ip("-n", node.namespace, "link", "set", interface, "up")
    except subprocess.CalledProcessError:  # a container may be root and yet not allowed to
        return False
    return True


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
