"""What the documentation names is there."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"


def test_every_test_that_proves_a_promise_exists() -> None:
    named = set(re.findall(r"`((?:test_|Test)\w+)`", (DOCS / "reliability.md").read_text()))
    sources = "".join(file.read_text() for file in TESTS.rglob("test_*.py"))
    assert len(named) > 30
    assert sorted(name for name in named if not re.search(rf"\b{name}\b", sources)) == []


def test_every_link_between_the_pages_leads_somewhere() -> None:
    pages = [*DOCS.glob("*.md"), *TESTS.parent.glob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
