"""Benchmarks on the features of a frozen, pretrained network (`--features`)."""
from argparse import Namespace
from pathlib import Path

from engine.errors import UsageError
from engine.identity import file_digest


def features_identity(args: Namespace) -> str:
    """What decides the values of the features, by content: the network's weights, or the file.

    Raises:
        UsageError: they are not there, or a file is given where a network is wanted.
    """
    from datasets.utils.features.network import network_spec

    if args.dataset != "features":
        if args.features.endswith(".npz"):
            raise UsageError(f"{args.features} is a benchmark of its own: use --dataset features "
                             "--classes_per_task N instead of --dataset " + args.dataset + ".")
        return network_spec(args).identity
    if not args.features:
        raise UsageError("--dataset features needs a file of features: give one with --features "
                         "FILE.npz.")
    try:
        return file_digest(Path(args.features))
    except OSError as error:
        raise UsageError(f"Cannot read the features {args.features} ({error.strerror}); give an "
                         ".npz file with --features.") from error
