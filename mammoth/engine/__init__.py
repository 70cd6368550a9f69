"""The harness itself: settings, identity, runs and their files. No method has to import it.

What method files of upstream import stands in `utils/`, under upstream's names.
"""
