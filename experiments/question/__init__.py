"""What is asked: experiment files, grids, design points, networks and their sizes."""
