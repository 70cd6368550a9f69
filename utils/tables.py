#!/usr/bin/env python3
"""Rebuild the paper's tables from the runs in results/ (see experiments/commands/tables.py)."""
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # the checkout, instead of this folder

from experiments.commands.tables import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
