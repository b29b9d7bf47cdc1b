"""The rooms of the house, and the doors between them."""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import traceml

PACKAGE = Path(traceml.__file__).parent
GENERATED = PACKAGE / "wire" / "telemetry_pb2.py"
SOURCES = sorted(PACKAGE.rglob("*.py"))
WITH_TORCH = ("rank", "integrations")
DASHBOARDS = PACKAGE / "publish" / "dashboards"  # for developers, whose Python is 3.11 or later
MAX_LINES = 400

# What each of these rooms may import of traceml, with all that is below it.
DOORS = {
    "rank": ("traceml.rank", "traceml.wire", "traceml.__version__"),
    "wire": ("traceml.wire", "traceml.files"),
    "files": ("traceml.files",),
    "diagnosis": ("traceml.diagnosis", "traceml.snapshot", "traceml.units"),
}

each_source = pytest.mark.parametrize("source", SOURCES, ids=lambda path: name_of(path))


def name_of(source: Path) -> str:
    return str(source.relative_to(PACKAGE))


def imports_of(source: Path) -> Iterator[str]:
    """Every name the file imports, wherever in it, as a dotted path."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in {name_of(source)}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(source: Path) -> str:
    return source.relative_to(PACKAGE).parts[0]


def is_open(door: str, name: str) -> bool:
    return f"{name}.".startswith(f"{door}.")


@each_source
def test_only_the_rank_and_integrations_import_torch(source: Path) -> None:
    roots = {name.split(".")[0] for name in imports_of(source)}
    assert room_of(source) in WITH_TORCH or not roots & {"torch", "torchvision", "torchaudio"}


@each_source
def test_only_the_sidecar_imports_grpc(source: Path) -> None:
    """Its threads and descriptors have no place in a training process."""
    roots = {name.split(".")[0] for name in imports_of(source)}
    assert room_of(source) == "sidecar" or "grpc" not in roots


def test_everything_but_the_rank_is_importable_where_torch_is_not_installed() -> None:
    modules = [
        ".".join(source.relative_to(PACKAGE.parent).with_suffix("").parts)
        for source in SOURCES
        if room_of(source) not in (*WITH_TORCH, "decorators.py") and source.stem != "__main__"
        if source.parent != DASHBOARDS or importlib.util.find_spec("grafana_foundation_sdk")
    ]
    code = "import sys, importlib; sys.modules['torch'] = None\n"
    code += "for name in sys.argv[1:]: importlib.import_module(name)"
    subprocess.run([sys.executable, "-c", code, *modules], check=True, timeout=60)


@pytest.mark.parametrize(
    "source", [source for source in SOURCES if room_of(source) in DOORS], ids=name_of
)
def test_a_room_imports_only_through_its_doors(source: Path) -> None:
    ours = [name for name in imports_of(source) if name.split(".")[0] == "traceml"]
    doors = DOORS[room_of(source)]
    assert [name for name in ours if not any(is_open(door, name) for door in doors)] == []


WRITES = re.compile(
    r"\.write_(?:text|bytes)\(|mkstemp|NamedTemporaryFile|os\.(?:open|replace|rename|fdopen)\(|O_CREAT"
    r"|\.open\((?!\))|(?<!\.)\bopen\(|FileHandler"
)
MAKES_FILES_OF_THE_REPOSITORY = ("schema.py", "reference.py", "generate.py")


def test_files_are_written_in_one_place_only() -> None:
    """But for what the system, the script or the user's own word opens."""
    others = {
        "cli/main.py": 2,  # os.devnull
        "cli/run.py": 1,  # the script, to see whether it can be read
        "cli/compare.py": 1,  # the page of a job, which its environment names
        "sidecar/logs.py": 2,  # a descriptor from there, and os.devnull
    }
    found = {
        name_of(source): len(WRITES.findall(code_of(source)))
        for source in SOURCES
        if room_of(source) != "files" and source.name not in MAKES_FILES_OF_THE_REPOSITORY
    }
    assert {name: count for name, count in found.items() if count} == others


def code_of(source: Path) -> str:
    """Its code, without methods of ours that have such a name."""
    text = source.read_text(encoding="utf-8")
    return re.sub(r"def open\(|_sessions\.open\(|_ledger\.open\(", "", text)


def test_no_other_room_needs_what_only_the_dashboards_are_made_with() -> None:
    needed = ("grafana_foundation_sdk", "traceml.publish.dashboards")
    others = [source for source in SOURCES if source.parent != DASHBOARDS]
    assert [s for s in others if any(is_open(n, i) for i in imports_of(s) for n in needed)] == []


@each_source
def test_no_file_holds_two_ideas(source: Path) -> None:
    lines = len(source.read_text(encoding="utf-8").splitlines())
    assert source == GENERATED or lines <= MAX_LINES


@pytest.mark.parametrize("init", [s for s in SOURCES if s.name == "__init__.py"], ids=name_of)
def test_every_package_says_what_lives_there(init: Path) -> None:
    assert ast.get_docstring(ast.parse(init.read_text(encoding="utf-8")))


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {source.parent for source in SOURCES}
    packages = folders - {PACKAGE / "rank" / "injected"}  # it is put on a path, not imported
    assert [folder for folder in packages if not (folder / "__init__.py").exists()] == []
