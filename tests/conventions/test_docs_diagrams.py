"""Diagrams in the documentation are those that the code makes of its tables."""

from godwit.mobility.arrival import diagram
from tests.conventions.repository import ROOT
from tests.conventions.test_docs import blocks

PAGE = "docs/architecture.md"


def faults(page: str) -> list[str]:
    """What is wrong with the diagram of an arrival in a page."""
    found = [block.rstrip("\n") for block in blocks(page, "mermaid")]
    if found == [diagram()]:
        return []
    return [f"{PAGE} must contain one mermaid block, and it must be this:\n{diagram()}"]


def test_the_life_of_an_arrival_is_drawn_from_its_transition_table() -> None:
    assert faults((ROOT / PAGE).read_text(encoding="utf-8")) == []


def test_a_diagram_that_differs_is_caught() -> None:
    page = f"# A page\n\n```mermaid\n{diagram()}\n```\n"
    assert faults(page) == []
    assert len(faults(page.replace("receiving --> flushing", "receiving --> done"))) == 1
    assert len(faults("# A page without a diagram\n")) == 1
