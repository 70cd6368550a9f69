"""The helpers that start runs stand beside the harness's tests."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "mammoth"))
