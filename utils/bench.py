#!/usr/bin/env python3
"""Measure where time goes (see experiments/commands/bench.py)."""
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # the checkout, instead of this folder

from experiments.commands.bench import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
