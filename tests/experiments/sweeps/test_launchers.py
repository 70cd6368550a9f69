"""The same grid on Ray, through submitit, and on a real SLURM where one can be had."""
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from sweep_process import (
    begin,
    kill,
    numbers,
    progress,
    results,
    sweep,
    wait_for,
    workers,
    write_grid,
)

from engine.errors import UsageError
from experiments.sweeps import slurm as on_slurm
from experiments.sweeps.display import Display
from experiments.sweeps.execution import Outcome, RunPolicy
from experiments.sweeps.ray import check_reachable
from experiments.sweeps.specification import Folders, RunSpec

SHORT = {"dataset": "seq-digits", "model": ["er", "sgd"], "buffer_size?": 50, "n_epochs": 1,
         "seed": 0}
LONG = {"dataset": "perm-digits", "model": "er", "buffer_size": 50, "n_epochs": 40, "seed": 0}


def without(package, folder):
    """An environment in which a package is not installed."""
    (folder / f"{package}.py").write_text(f"raise ImportError('no {package} here')\n")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize("launcher, package, command", [
    ("ray", "ray", "pip install ray"), ("slurm", "submitit", "pip install submitit")])
def test_machine_without_the_package_gets_one_sentence(launcher, package, command, tmp_path):
    process = sweep(write_grid(tmp_path, **SHORT), tmp_path, "--launcher", launcher,
                    env=without(package, tmp_path))
    assert process.returncode == 2
    assert process.stderr.strip() == (f"error: --launcher {launcher} needs the extra `{launcher}`: "
                                      f"{command}.")


def test_ray_cluster_that_is_not_there_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(UsageError, match=f"no Ray cluster at {address}.*ray start --head"):
        check_reachable(address)
    check_reachable("auto")
    check_reachable(None)


class FakeJob:
    """A job that SLURM has and that never ends."""

    def __init__(self, folder, name):
        self.job_id = name
        self.paths = SimpleNamespace(result_pickle=folder / f"{name}.pkl", stderr="log")


@pytest.fixture
def fake_slurm(tmp_path, monkeypatch):
    """submitit and SLURM's commands as far as the launcher uses them; what was asked of them."""
    asked = SimpleNamespace(arrays=[], parameters={}, commands=[], queue=[])

    class Executor:
        def __init__(self, **_):
            pass

        def update_parameters(self, **given):
            asked.parameters.update(given)

        def map_array(self, job, specs):
            asked.arrays.append(len(specs))
            names = [f"{len(asked.arrays)}_{i}" for i in range(len(specs))]
            asked.queue += names
            return [FakeJob(tmp_path, name) for name in names]

    def run(words, **_):
        asked.commands.append(words)
        if words[0] == "scancel":
            asked.queue.clear()
        return SimpleNamespace(returncode=0, stdout="\n".join(asked.queue), stderr="")

    errors = SimpleNamespace(FailedJobError=KeyError, UncompletedJobError=KeyError)
    fake = SimpleNamespace(AutoExecutor=Executor, core=SimpleNamespace(utils=errors))
    monkeypatch.setitem(sys.modules, "submitit", fake)
    monkeypatch.setattr(on_slurm.subprocess, "run", run)
    monkeypatch.setattr(on_slurm, "_LOOK_AGAIN", 0.1)
    monkeypatch.setattr(on_slurm, "importable", dict)
    monkeypatch.setattr(on_slurm, "look_up", lambda spec: None)  # nothing was run before
    return asked


def slurm_launcher(jobs=8, **given):
    options = {"gpus": 0, "mem": None, "partition": None, "time": 60, "cpus": 1, "detach": False,
               "runs_per_job": 1,
               "cluster": "slurm", **given}
    return on_slurm.SlurmLauncher(jobs, SimpleNamespace(**options), RunPolicy())


def specs_in(folder, count):
    return [RunSpec({"model": "er", "dataset": "seq-digits", "seed": i},
                    Folders.of(str(folder), "results/"), label=f"er seed {i}")
            for i in range(count)]


def test_slurm_gets_arrays_that_it_takes_and_whole_gpus(fake_slurm, tmp_path):
    launcher = slurm_launcher(detach=True, gpus=2.0)
    assert launcher.run(specs_in(tmp_path, 2500), None, None) == 0
    assert fake_slurm.arrays == [1000, 1000, 500]
    assert fake_slurm.parameters["slurm_array_parallelism"] == 2, "8 at a time over three arrays"
    assert fake_slurm.parameters["gpus_per_node"] == 2
    assert fake_slurm.parameters["slurm_signal_delay_s"] == 300
    with pytest.raises(UsageError, match="whole GPUs, but got --gpus 0.5"):
        slurm_launcher(gpus=0.5)
    assert slurm_launcher(detach=True, runs_per_job=300).run(specs_in(tmp_path, 2500), None, None) \
        == 0
    assert fake_slurm.arrays[3:] == [9]


def test_slurm_job_goes_on_after_the_runs_that_it_has_done(tmp_path, monkeypatch):
    done = []

    def run(self, spec):
        done.append(spec.label)
        return Outcome("finished", words=spec.label)

    monkeypatch.setattr(on_slurm.Job, "__call__", run)
    specs = specs_in(tmp_path, 3)
    requeued = on_slurm.SlurmJob(RunPolicy(), tmp_path / "stop", (Outcome("finished", words="x"),))
    assert [outcome.words for outcome in requeued(specs)] == ["x", "er seed 1", "er seed 2"]
    assert done == ["er seed 1", "er seed 2"]


@pytest.fixture
def heard_signals():
    """Ctrl-C is not ignored, as it is in tests that a shell runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_signals")
@pytest.mark.parametrize("signals", [1, 2])
def test_slurm_jobs_that_wait_are_cancelled_by_the_first_ctrl_c(signals, fake_slurm, tmp_path):
    outcomes, said, timers = [], io.StringIO(), []

    class Interrupting(Display):
        """The first look at it means that the launcher listens; signals come while it sleeps."""

        def update(self, active, waiting=0):
            super().update(active, waiting)
            while len(timers) < signals:
                timers.append(threading.Timer(0.1 + 0.01 * len(timers), os.kill,
                                              (os.getpid(), signal.SIGINT)))
                timers[-1].start()

    if signals == 2:  # a job that does not stop
        fake_slurm.queue = type("Stuck", (list,), {"clear": lambda self: None})()
    launcher = slurm_launcher()
    code = launcher.run(specs_in(tmp_path, 3), Interrupting(3, 8, {}, said),
                        lambda spec, outcome: outcomes.append(outcome.state))
    assert code == signal.SIGINT and "Stopping:" in said.getvalue()
    assert ["scancel", "--state=PENDING", "1"] in fake_slurm.commands
    left = list((tmp_path / "results" / "sweep" / "stop").iterdir())
    assert (outcomes, len(left)) == ((["stopped"] * 3, 0) if signals == 1 else ([], 1)), \
        "what still runs after a second Ctrl-C finds the request to stop"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("here")
    assert sweep(write_grid(folder, **LONG), folder).returncode == 0
    return numbers(folder)


@pytest.mark.slow
def test_submitit_runs_the_grid_and_requeues_an_interrupted_job(undisturbed, tmp_path):
    pytest.importorskip("submitit")
    process = begin(write_grid(tmp_path, **{**LONG, "seed": [0, 1]}), tmp_path, "--launcher",
                    "slurm", "--cluster", "local", "--runs_per_job", "2")
    wait_for(lambda: any(note["task"] > 0 for note in progress(tmp_path).values()))
    job = int(next((tmp_path / "results" / "sweep" / "slurm").glob("[0-9]*")).name)
    for child in children(job):
        kill(child, 12)  # USR2, which submitit sends before a job's time is over
    stdout, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr
    assert "Submitted 1 jobs" in stdout and "2 of 2 runs finished (2 now), 0 failed." in stdout
    assert undisturbed.items() <= numbers(tmp_path).items()
    assert sorted(r["resumed"] for r in results(tmp_path).values()) == [0, 1]


def children(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True,
                            text=True)
    return [int(word) for word in listed.stdout.split()]


RAY = """
import json, os, sys
os.environ["RAY_worker_niceness"] = "0"
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
import subprocess
done = subprocess.run([sys.executable, *sys.argv[1:], "--address", cluster.address],
                      capture_output=True, text=True)
print(json.dumps([done.returncode, done.stdout, done.stderr]))
cluster.shutdown()
"""


@pytest.mark.slow
def test_ray_cluster_of_two_nodes_runs_the_grid(tmp_path):
    pytest.importorskip("ray")
    from sweep_process import SCRIPT

    grid = write_grid(tmp_path, **SHORT)
    process = subprocess.run(
        [sys.executable, "-c", RAY, str(SCRIPT), str(grid), "--base_path", str(tmp_path),
         "--launcher", "ray"], capture_output=True, text=True, timeout=500,
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert process.returncode == 0, process.stderr
    code, stdout, stderr = json.loads(process.stdout.strip().splitlines()[-1])
    assert code == 0, stderr
    assert "2 of 2 runs finished (2 now), 0 failed." in stdout
    here = tmp_path / "here"
    assert sweep(grid, here).returncode == 0
    assert numbers(tmp_path) == numbers(here)
    notes = [p.read_text() for p in tmp_path.glob("results/sweep/locks/*.lock")]
    assert len(notes) == 2


def parent(pid):
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True,
                              text=True).stdout)


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["forking process", "worker"])
def test_ray_process_that_dies_costs_nothing(dies, undisturbed, tmp_path):
    pytest.importorskip("ray")
    process = begin(write_grid(tmp_path, **LONG), tmp_path, "--launcher", "ray", "--jobs", "1")
    wait_for(lambda: any(note["task"] > 0 for note in progress(tmp_path).values()))
    forking = parent(next(iter(workers(tmp_path).values())))
    kill(forking if dies == "forking process" else parent(forking))
    stdout, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr
    assert "1 of 1 runs finished" in stdout and numbers(tmp_path) == undisturbed


CONF = """ClusterName=tiny
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort=26817
SlurmdPort=26818
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
ReturnToService=2
MailProg=/bin/true
NodeName={host} CPUs={cores} RealMemory=2000 State=UNKNOWN
PartitionName=tiny Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A SLURM of one node from Debian's packages (slurm-wlm, munge), brought up for one test."""
    missing = [p for p in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(p) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and Debian's slurm-wlm and munge (missing: {missing})")
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    for parent in (folder, *folder.parents):
        if parent.stat().st_mode & 0o055 != 0o055 and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    (folder / "slurm.conf").write_text(CONF.format(host=os.uname().nodename, folder=folder,
                                                   cores=os.cpu_count()))
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    started = [
        subprocess.Popen(["munged", "--foreground", "--force", f"--key-file={folder}/munge.key",
                          f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
                          f"--seed-file={folder}/seed", f"--log-file={folder}/munged.log"],
                         stderr=subprocess.DEVNULL)]
    time.sleep(1)
    started += [subprocess.Popen([daemon, "-D"], stderr=subprocess.DEVNULL)
                for daemon in ("slurmctld", "slurmd")]
    try:
        for _ in range(60):
            if "idle" in subprocess.run(["sinfo", "--noheader", "--format=%T"],
                                        capture_output=True, text=True).stdout:
                break
            time.sleep(0.5)
        else:
            pytest.skip("SLURM could not be brought up here")
        yield folder
    finally:
        subprocess.run(["scancel", "--user", "root"], capture_output=True)
        for process in reversed(started):
            process.terminate()
            process.wait(20)


@pytest.mark.slow
def test_real_slurm_runs_the_grid_and_a_requeued_job_resumes(slurm, undisturbed, tmp_path):
    pytest.importorskip("submitit")
    data = tmp_path / "data"
    process = begin(write_grid(tmp_path, **LONG), data, "--launcher", "slurm", "--partition",
                    "tiny", "--time", "30", "--mem", "1")
    wait_for(lambda: any(note["task"] > 0 for note in progress(data).values()))
    job = subprocess.run(["squeue", "--noheader", "--format=%A"], capture_output=True,
                         text=True).stdout.split()[0]
    subprocess.run(["scancel", "--signal=USR2", job], check=True)
    stdout, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr
    assert "1 of 1 runs finished (1 now), 0 failed." in stdout
    assert numbers(data) == undisturbed
    assert [r["resumed"] for r in results(data).values()] == [1]


@pytest.mark.slow
def test_real_slurm_is_left_empty_by_ctrl_c(slurm, tmp_path):
    pytest.importorskip("submitit")
    data = tmp_path / "data"
    process = begin(write_grid(tmp_path, **{**LONG, "seed": [0, 1, 2]}), data, "--launcher",
                    "slurm", "--partition", "tiny", "--time", "30", "--mem", "1", "--jobs", "1")
    wait_for(lambda: progress(data))
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 130, stderr
    assert stdout.count("stopped, checkpoint kept") == 3 and "Stopping:" in stdout
    queue = subprocess.run(["squeue", "--noheader"], capture_output=True, text=True)
    assert queue.returncode == 0 and not queue.stdout.strip()
    assert len(list(data.glob("results/sweep/checkpoints/*_paused-*.pt"))) == 1
    assert not list(data.glob("results/sweep/stop/*"))
