"""What a model knows about its own uncertainty: recorded in a run, measured afterwards.

Reader's path: `recorder.py` (what `--uncertainty 1` saves and when), `summary.py` (from the saved
arrays to summary.json), then one file a question: calibration, heads, transfer, novelty,
confidence, latent_records, attention, cost. The format: docs/uncertainty-format.md.

Measures take numpy arrays and know neither models nor files; n is the number of samples, K of
classes, H of heads, S of draws, m of context rows.
"""
