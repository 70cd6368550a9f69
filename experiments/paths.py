"""Where things are: in a checkout, or in the place that the package was installed to."""
from pathlib import Path

import mammoth

ROOT = Path(__file__).resolve().parents[1]
MAIN = Path(mammoth.__file__).resolve().parent / "main.py"
