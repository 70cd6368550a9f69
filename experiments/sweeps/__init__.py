"""Running many experiments.

`specification` turns arguments into checked runs, `grid` a YAML file into arguments, `claims`
keeps two sweeps from doing the same run, `execution` starts one run and says how it ended, and
`local`, `ray` and `slurm` do that for many.
"""
