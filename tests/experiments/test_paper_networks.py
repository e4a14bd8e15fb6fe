"""``docs/networks.md`` has the networks' figures, and a reason wherever they differ from DNNFusion's tables."""

from pathlib import Path

from dsascape.experiments.papers.network_tables import PAPER, REASONS, differences, markdown, our_figures

DOCUMENT = Path(__file__).parents[2] / "docs" / "networks.md"


def test_every_noteworthy_difference_from_the_paper_has_its_reason() -> None:
    found = {
        (name, column) for name, paper in PAPER.items() for column in differences(paper, our_figures(f"{name}-raw"))
    }

    assert found == set(REASONS)


def test_the_document_holds_the_figures_that_the_graphs_give() -> None:
    assert DOCUMENT.read_text() == markdown()
