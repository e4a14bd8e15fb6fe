"""Results of a run: stored rows, layers and timelines, and the files of a results folder."""
