"""The docs site: the same Markdown as in the repository, an API reference, the results' page."""
