#!/usr/bin/env bash
# Sets up a virtual environment once, then runs the job that is asked for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'TEXT'
usage: ./run_all.sh [JOB] [ARGUMENTS]

  (no job)   NPCL beside ER, DER++, ANP and NPCL+ on embedded data: accuracy, calibration, a
             table and a report (some 15 seconds on two cores)
  test       ruff, mypy and the test suite; with arguments the test suite alone, which gets them
             (--slow: the long tests too)
  compare    any methods side by side: ./run_all.sh compare --help
  sweep      any grid of arguments, here or on a cluster: ./run_all.sh sweep --help
  tables     the paper's tables: --scale cpu (what reproduces here) or full, or a search for
             hyperparameters (--validation); goes on when repeated
  docs       the docs site with API reference and results, without network: site/index.html
  bench      time per step and evaluation throughput: ./run_all.sh bench --help
  --help     this page

The virtual environment is made in .venv on first use (VENV=DIR chooses another folder).
TEXT
}

job=${1:-demo}
[ $# -gt 0 ] && shift
case "$job" in
  -h|--help|help) usage; exit 0 ;;
  demo|test|compare|sweep|tables|docs|bench) ;;
  *) echo "error: there is no job \`$job\`; ./run_all.sh --help lists them." >&2; exit 2 ;;
esac

venv=${VENV:-.venv}
python=$venv/bin/python
stamp=$venv/requirements.installed
if ! cmp -s requirements.txt "$stamp"; then
  base=$(command -v python3.11 || command -v python3) || {
    echo "error: Python 3.11 or newer is needed; install it first." >&2; exit 2; }
  "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "error: Python 3.11 or newer is needed, but $base is $("$base" --version)." >&2; exit 2; }
  echo "Installing into $venv (once) ..."
  [ -x "$python" ] || "$base" -m venv "$venv"
  "$python" -m pip install --quiet --disable-pip-version-check -r requirements.txt
  cp requirements.txt "$stamp"
fi

case "$job" in
  demo)    exec "$python" utils/compare.py --models er derpp anp npcl npcl_plus --dataset seq-digits \
             --buffer_size 200 --seeds 3 --report "$@" ;;
  test)    suite=("$python" -m pytest -n 2 --dist worksteal)
           [ $# -gt 0 ] && exec "${suite[@]}" "$@"
           "$venv/bin/ruff" check --quiet .
           types=$(mktemp)  # what mypy says while the tests run
           "$venv/bin/mypy" --no-error-summary >"$types" 2>&1 &
           mypy=$!
           trap 'kill "$mypy" 2>/dev/null || true; rm -f "$types"' EXIT
           failed=0
           "${suite[@]}" || failed=$?
           wait "$mypy" || { echo "mypy:"; cat "$types"; failed=1; } >&2
           exit "$failed" ;;
  compare) exec "$python" utils/compare.py "$@" ;;
  sweep)   exec "$python" utils/sweep.py "$@" ;;
  tables)  exec "$python" utils/reproduce.py "$@" ;;
  docs)    exec "$python" utils/docs.py "$@" ;;
  bench)   exec "$python" utils/bench.py "$@" ;;
esac
