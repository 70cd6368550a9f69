"""Benchmarks on the features of a frozen, pretrained network (`--features`)."""
