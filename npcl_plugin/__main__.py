"""`python -m npcl_plugin`: the plugin in any Mammoth checkout.

    python -m npcl_plugin --mammoth PATH --model npcl --dataset seq-cifar10 --buffer_size 200
    python -m npcl_plugin link PATH      afterwards PATH/main.py --model npcl works by itself
    python -m npcl_plugin unlink PATH

All other words go to the checkout's main.py. PATH defaults to $MAMMOTH_PATH, then to the
current folder.
"""
import sys

from npcl_plugin.upstream import LinkError, find_checkout, launch, link, unlink


def main(words: list[str]) -> int:
    """Do what the words say; one sentence and exit code 2 if they make no sense."""
    try:
        if not words or words[0] in ("-h", "--help"):
            print(__doc__)
        elif words[0] in ("link", "unlink"):
            do = link if words[0] == "link" else unlink
            for path in do(find_checkout(words[1] if len(words) > 1 else None)):
                print(f"{words[0]}ed {path}")
        else:
            path, rest = None, list(words)
            if "--mammoth" in rest:
                at = rest.index("--mammoth")
                path = rest[at + 1] if at + 1 < len(rest) else None
                del rest[at:at + 2]
            launch(find_checkout(path), rest)
    except LinkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
