"""Importing this module imports all that a run needs (see `experiments.sweeps.warm`)."""
import contextlib

from engine.heap import importing
from experiments.sweeps.warm import import_all

# What cannot be imported fails again in the run that needs it.
with importing(), contextlib.suppress(Exception):
    import_all()
