"""Memory that may be used, as far as anybody tells."""

from pathlib import Path

import pytest
import torch

from traceml.rank import memory


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory, "_MOUNT", tmp_path)
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "_host_bytes", lambda: 1_000)
    return tmp_path


def limit(cgroups: Path, own: str, **limits: str) -> int:
    """`limits` by path, with __ for a slash."""
    (cgroups / "own").write_text(own)
    for path, text in limits.items():
        file = cgroups / path.replace("__", "/").replace("_at_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return memory.limit_bytes(torch.device("cpu"))


def test_a_groups_limit_is_the_process_s(cgroups: Path) -> None:
    assert limit(cgroups, "0::/job\n", job__memory_at_max="600\n") == 600


def test_a_limit_further_up_holds_too(cgroups: Path) -> None:
    limits = {"a__memory_at_max": "500\n", "a__b__memory_at_max": "max\n"}
    assert limit(cgroups, "0::/a/b\n", **limits) == 500


def test_the_older_groups_are_read_as_well(cgroups: Path) -> None:
    own = "5:cpu,cpuacct:/x\n4:memory:/x\n"
    assert limit(cgroups, own, memory__x__memory_at_limit_in_bytes="700\n") == 700


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n", "nonsense"])
def test_where_there_is_no_limit_it_is_the_hosts_memory(cgroups: Path, text: str) -> None:
    assert limit(cgroups, "0::/\n", memory_at_max=text) == 1_000


def test_without_groups_it_is_the_hosts_memory(cgroups: Path) -> None:
    assert memory.limit_bytes(torch.device("cpu")) == 1_000


def test_on_this_machine_there_is_a_limit() -> None:
    assert memory.limit_bytes(torch.device("cpu")) > 1 << 20


def test_a_device_that_does_not_tell_its_size_has_no_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: torch.device) -> None:
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch.xpu, "get_device_properties", refuse)
    assert memory.limit_bytes(torch.device("xpu", 1)) == 0
