"""One HTML page from a folder of runs, and its figures as files."""
