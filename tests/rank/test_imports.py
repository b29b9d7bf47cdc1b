"""Being told of an import changes nothing about the import."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from traceml.rank.imports import when_imported


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for modules, all forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    modules, finders = dict(sys.modules), list(sys.meta_path)
    yield tmp_path
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]
    sys.meta_path[:] = finders


def write(folder: Path, path: str, text: str = "value = 1\n") -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    importlib.invalidate_caches()


def test_a_module_that_is_there_already_is_told_at_once(folder: Path) -> None:
    write(folder, "early_bird.py")
    import early_bird  # type: ignore[import-not-found]

    told: list[ModuleType] = []
    when_imported("early_bird", told.append)
    assert told == [early_bird]


def test_a_module_that_is_imported_later_is_told_then_and_once(folder: Path) -> None:
    write(folder, "late_bird.py")
    told: list[ModuleType] = []
    when_imported("late_bird", told.append)
    assert "late_bird" not in sys.modules
    assert told == []
    import late_bird  # type: ignore[import-not-found]

    assert told == [late_bird]
    importlib.reload(late_bird)
    assert told == [late_bird]


def test_the_module_is_whole_when_it_is_told(folder: Path) -> None:
    write(folder, "whole.py", "first = 1\nlast = 2\n")
    seen: list[int] = []
    when_imported("whole", lambda module: seen.append(module.last))
    import whole  # type: ignore[import-not-found]  # noqa: F401

    assert seen == [2]


def test_names_taken_from_the_module_are_those_that_were_patched(folder: Path) -> None:
    write(folder, "patched.py")
    when_imported("patched", lambda module: setattr(module, "value", 2))
    from patched import value  # type: ignore[import-not-found]

    assert value == 2


@pytest.mark.parametrize("statement", ["import outer.inner", "from outer import inner"])
def test_a_module_within_a_package_is_told(folder: Path, statement: str) -> None:
    write(folder, "outer/__init__.py")
    write(folder, "outer/inner.py")
    told: list[str] = []
    when_imported("outer.inner", lambda module: told.append(module.__name__))
    importlib.import_module("outer")
    assert told == []
    exec(statement)
    assert told == ["outer.inner"]


def test_a_package_and_what_it_imports_itself_are_both_told(folder: Path) -> None:
    write(folder, "outer/__init__.py", "from outer import inner\n")
    write(folder, "outer/inner.py")
    told: list[str] = []
    when_imported("outer", lambda module: told.append(module.__name__))
    when_imported("outer.inner", lambda module: told.append(module.__name__))
    importlib.import_module("outer")
    assert told == ["outer.inner", "outer"]


def test_an_import_that_fails_fails_with_its_own_error(folder: Path) -> None:
    write(folder, "broken.py", "raise KeyError('of its own')\n")
    told: list[ModuleType] = []
    when_imported("broken", told.append)
    with pytest.raises(KeyError, match="of its own") as failure:
        importlib.import_module("broken")
    assert failure.traceback[-1].path == folder / "broken.py"
    assert "broken" not in sys.modules
    assert told == []


def test_a_module_that_does_not_exist_is_not_found_as_ever(folder: Path) -> None:
    when_imported("nowhere_at_all", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere_at_all'"):
        importlib.import_module("nowhere_at_all")


def test_a_module_that_failed_is_told_when_a_second_attempt_succeeds(folder: Path) -> None:
    write(folder, "flaky.py", "import needed_first\n")
    told: list[str] = []
    when_imported("flaky", lambda module: told.append(module.__name__))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("flaky")
    write(folder, "needed_first.py")
    importlib.import_module("flaky")
    assert told == ["flaky"]


def test_asking_where_a_module_is_does_not_count_as_importing_it(folder: Path) -> None:
    write(folder, "sought.py")
    told: list[str] = []
    when_imported("sought", lambda module: told.append(module.__name__))
    assert importlib.util.find_spec("sought") is not None
    assert told == []
    importlib.import_module("sought")
    assert told == ["sought"]


def test_loader_and_spec_are_those_of_an_ordinary_import(folder: Path) -> None:
    write(folder, "ordinary.py")
    write(folder, "watched.py")
    when_imported("watched", lambda _: None)
    ordinary, watched = map(importlib.import_module, ("ordinary", "watched"))
    assert type(watched.__loader__) is type(ordinary.__loader__) is SourceFileLoader
    assert vars(watched.__loader__).keys() == vars(ordinary.__loader__).keys()
    assert watched.__spec__ is not None
    assert watched.__spec__.loader is watched.__loader__
    assert watched.__spec__.origin == watched.__file__ == str(folder / "watched.py")
    assert vars(watched.__spec__).keys() == vars(ordinary.__spec__).keys()
    assert watched.__cached__ is not None


def test_other_modules_are_found_by_the_other_finders(folder: Path) -> None:
    write(folder, "wanted.py")
    write(folder, "unwanted.py")
    told: list[str] = []
    when_imported("wanted", lambda module: told.append(module.__name__))
    importlib.import_module("unwanted")
    assert told == []
    importlib.import_module("wanted")
    assert told == ["wanted"]


def test_another_that_asks_all_finders_and_one_that_is_none_do_no_harm(folder: Path) -> None:
    class AsksToo:
        def find_spec(self, name: str, path: object, target: object = None) -> object:
            others = [finder for finder in sys.meta_path if finder not in (self, of_old)]
            asked = (finder.find_spec(name, path, target) for finder in others)  # type: ignore[arg-type]
            return next((found for found in asked if found is not None), None)

    of_old = object()
    write(folder, "popular.py")
    told: list[ModuleType] = []
    when_imported("popular", told.append)
    sys.meta_path[1:1] = [AsksToo(), of_old]  # type: ignore[list-item]
    assert told == [importlib.import_module("popular")]


def test_several_may_wait_for_the_same_module(folder: Path) -> None:
    write(folder, "awaited.py")
    told: list[str] = []
    when_imported("awaited", lambda _: told.append("first"))
    when_imported("awaited", lambda _: told.append("second"))
    importlib.import_module("awaited")
    assert told == ["first", "second"]
