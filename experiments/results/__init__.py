"""What a run stores: rows, layers, timelines, and the files of a results folder."""
