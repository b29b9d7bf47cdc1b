import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.launching import Launcher
from traceml.publish.exposition import Form, Writer
from traceml.snapshot import Snapshot


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the golden files anew")


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """Runs `traceml` in a folder of its own and leaves no process behind."""
    with Launcher(tmp_path) as launcher:
        yield launcher


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """A file for as long as which the training goes on."""
    file = tmp_path / "hold"
    file.touch()
    return file


@pytest.fixture(scope="session")
def accelerator() -> None:
    """The compiled accelerator; the first who needs it on a machine waits some minutes."""
    from tests.accelerator.build import library  # needs torch, as few tests do

    require_program(os.environ.get("CXX", "c++"))
    require_program("ninja")
    library()


@pytest.fixture
def promtool() -> str:
    return require_program("promtool")


@pytest.fixture
def prometheus() -> str:
    return require_program("prometheus")


@pytest.fixture
def certificates(tmp_path: Path) -> Callable[[str], tuple[str, str]]:
    """Makes certificates that one authority has signed, or none; returns certificate and key."""
    openssl = require_program("openssl")

    # Others take seconds to be made.
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def make(name: str, authority: str = "ca") -> tuple[str, str]:
        run("req", *new_key, "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        (tmp_path / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem",
            "-CAkey", f"{authority}.key", "-CAcreateserial", "-days", "2",
            "-extfile", "san", "-out", f"{name}.pem")  # fmt: skip
        return str(tmp_path / f"{name}.pem"), str(tmp_path / f"{name}.key")

    for authority in ("ca", "other"):
        run("req", "-x509", *new_key, "-subj", f"/CN={authority}",
            "-days", "2", "-keyout", f"{authority}.key", "-out", f"{authority}.pem")  # fmt: skip
    return make


def require_program(name: str) -> str:
    """A real part; where it is missing the test is skipped, or fails if parts are required."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("TRACEML_REQUIRE_REAL") == "1":
            pytest.fail(f"{name} is required and not installed")
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def renderings(monkeypatch: pytest.MonkeyPatch) -> list[Form]:
    """Fills with the form of every Snapshot that is written for scrapers."""
    rendered: list[Form] = []
    write = Writer.write

    def counted(writer: Writer, snapshot: Snapshot, form: Form) -> bytes:
        rendered.append(form)
        return write(writer, snapshot, form)

    monkeypatch.setattr(Writer, "write", counted)
    return rendered
