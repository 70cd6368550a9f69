"""`python -m npcl_plugin`: the plugin in any Mammoth checkout.

    python -m npcl_plugin --mammoth PATH --model npcl --dataset seq-cifar10 --buffer_size 200
    python -m npcl_plugin link PATH      afterwards PATH/main.py --model npcl works by itself
    python -m npcl_plugin unlink PATH
    python -m npcl_plugin doctor PATH    what is missing there (--base_path DIR: in which data)

All other words go to the checkout's main.py. PATH defaults to $MAMMOTH_PATH, then to the
current folder.
"""
import sys
from pathlib import Path

from npcl_plugin.doctor import examine
from npcl_plugin.import_hooks import harness_file
from npcl_plugin.upstream import LinkError, find_checkout, launch, link, unlink


def main(words: list[str]) -> int:
    """Do what the words say; one sentence and exit code 2 if they make no sense."""
    rest = list(words)
    try:
        if not rest or rest[0] in ("-h", "--help"):
            print(__doc__)
        elif rest[0] == "doctor":
            return _doctor(rest[1:])
        elif rest[0] in ("link", "unlink"):
            do = link if rest[0] == "link" else unlink
            print("\n".join(f"{rest[0]}ed {path}"
                            for path in do(find_checkout(_only_word(rest[1:])))))
        else:
            checkout = find_checkout(_taken(rest, "--mammoth"))
            launch(checkout, rest)
    except LinkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _doctor(words: list[str]) -> int:
    """Print the findings; 1 if something is missing."""
    data = _taken(words, "--base_path")
    checkout = find_checkout(_only_word(words))
    harness_file("engine.streams").make_patient()  # `doctor PATH | head`
    missing = 0
    for finding in examine(checkout, Path(data) if data else checkout / "data"):
        print(finding, flush=True)
        missing += finding.verdict == "missing"
    return 1 if missing else 0


def _taken(words: list[str], flag: str) -> str | None:
    """The value after a flag; both are removed from the words.

    Raises:
        LinkError: the value is missing.
    """
    if flag not in words:
        return None
    at = words.index(flag)
    if at + 1 == len(words):
        raise LinkError(f"Expected a path after {flag}.")
    value = words[at + 1]
    del words[at:at + 2]
    return value


def _only_word(words: list[str]) -> str | None:
    """The one word there may be.

    Raises:
        LinkError: there are several, or an option.
    """
    if len(words) > 1 or any(word.startswith("-") for word in words):
        raise LinkError(f"Expected one path, but got `{' '.join(words)}`.")
    return words[0] if words else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
