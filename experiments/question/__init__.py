"""Questions: experiment files, grids, design points, and networks at their sizes."""
