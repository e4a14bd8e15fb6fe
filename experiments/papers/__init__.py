"""Reproductions of papers: experiment files, the papers' printed figures, and tables that compare ours with them."""
