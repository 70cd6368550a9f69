"""Image transforms that define tasks (permutation, rotation) or undo a normalisation."""
