"""`python -m npcl_plugin.uncertainty RUN_FOLDER...`: measure saved predictions anew.

Reads <run folder>/uncertainty/*.npz and writes summary.json there; nothing is retrained.
"""
import sys
from pathlib import Path

import mammoth  # noqa: F401  (puts the harness's names on the path)
from npcl_plugin.contract import RunError
from npcl_plugin.uncertainty.printing import describe
from npcl_plugin.uncertainty.summary import write_summary


def main(words: list[str]) -> int:
    """Measure every folder named; a damaged one is named and left out."""
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    failed = 0
    for word in words:
        try:
            summary = write_summary(Path(word))
        except (ValueError, RunError) as error:
            print(f"error: {error}", file=sys.stderr)
            failed += 1
        else:
            print(f"{word}\n{describe(summary)}\n")
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
