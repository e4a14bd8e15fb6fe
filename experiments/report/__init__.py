"""The self-contained HTML report of an experiment; imports nothing here, so that its words load without matplotlib."""
