"""The self-contained HTML report of an experiment."""

from experiments.report.page import render_report
from experiments.report.study import Span, Study, Timeline

__all__ = ["Span", "Study", "Timeline", "render_report"]
