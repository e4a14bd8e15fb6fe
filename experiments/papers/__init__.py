"""Experiments that reproduce papers: files to run, the papers' figures, and tables that put ours beside them."""
