"""Python processes that need not import torch: forks of one process that has done so.

`run` stands for `subprocess.run(..., capture_output=True, text=True)` and `begin` for
`subprocess.Popen` with pipes. A fork has its own folder, environment, output and exit code, and
imports all of this repository afresh from where its script lies; other people's packages are there
already. Tests of how a process starts (its imports, its time, its limits) need a real one.
"""
import atexit
import functools
import gc
import importlib
import itertools
import json
import multiprocessing.util
import os
import random
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

PACKAGES = ("torch", "torchvision", "scipy.stats", "yaml", "PIL.Image", "tqdm")
ROOT = Path(__file__).resolve().parents[2]


def run(words, cwd=None, env=None, timeout=None):
    """A process to its end; one that is not Python is started as usual."""
    words = [str(word) for word in words]
    if words[0] != sys.executable:
        return subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=env,
                              timeout=timeout)
    process = begin(words, cwd, env)
    try:
        stdout, stderr = process.communicate(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)


def begin(words, cwd=None, env=None):
    """A Python process that is left to itself."""
    return Process([str(word) for word in words[1:]], cwd, env)


class Process:
    """As much of `subprocess.Popen` as tests use."""

    def __init__(self, words, cwd, env):
        self.args, self.returncode = words, None
        self._folder = tempfile.TemporaryDirectory(prefix="warm-")
        self._files = [Path(self._folder.name) / name for name in ("stdout", "stderr")]
        self.pid = server().start({
            "words": words, "cwd": str(cwd or os.getcwd()), "env": dict(env or os.environ),
            "files": [str(path) for path in self._files]})

    def poll(self):
        """The exit code, or None while it goes on."""
        return self._wait(0)

    def communicate(self, timeout=None):
        """What it said, once it has ended."""
        if self._wait(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        said = tuple(path.read_text() for path in self._files)
        self._folder.cleanup()
        return said

    def send_signal(self, number):
        """A signal, if it is still there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout):
        if self.returncode is None:
            self.returncode = server().ended(self.pid, timeout)
        return self.returncode


@functools.cache
def server():
    """The forking process of these tests; it ends with them."""
    return Server()


class Server:
    """The side of the tests: asks for forks, hears of their ends."""

    def __init__(self):
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE,
                                         env={**own, "OMP_NUM_THREADS": "1"})
        self._unread, self._begun, self._codes = b"", None, {}

    def start(self, request):
        """The id of a new process."""
        self._begun = None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        while self._begun is None:
            self._read(None)
        return self._begun

    def ended(self, pid, timeout):
        """Its exit code, or None if it goes on for longer than `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while pid not in self._codes:
            left = None if until is None else max(0, until - time.monotonic())
            if not self._read(left):
                return None
        return self._codes[pid]

    def _read(self, timeout):
        """Take in what the server says; False if it says nothing in time."""
        pipe = self._process.stdout.fileno()
        if not select.select([pipe], [], [], timeout)[0]:
            return False
        said = os.read(pipe, 1 << 16)
        assert said, "the forking process is gone"
        *lines, self._unread = (self._unread + said).split(b"\n")
        for kind, *numbers in (line.split() for line in lines):
            if kind == b"begun":
                self._begun = int(numbers[0])
            else:
                self._codes[int(numbers[0])] = int(numbers[1])
        return True


def serve():
    """The side of the forking process: one fork a line.

    Returns:
        In a fork, what it was asked to do.
    """
    ends, wake = os.pipe()
    for pipe in (ends, wake):
        os.set_blocking(pipe, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([0, ends], [], [])
        if ends in ready:
            os.read(ends, 4096)
            _tell_ends()
        if 0 in ready:
            line = sys.stdin.buffer.readline()
            if not line:
                os._exit(0)
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(ends), os.close(wake)
                return json.loads(line)
            os.write(1, b"begun %d\n" % child)


def _tell_ends():
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not child:
            return
        os.write(1, b"ended %d %d\n" % (child, os.waitstatus_to_exitcode(status)))


def become(request):
    """Be the process that was asked for."""
    for number, path in enumerate((os.devnull, *request["files"])):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    multiprocessing.util.spawnv_passfds = fork_server
    random.seed()
    first, *rest = request["words"]
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = ["" if first == "-c" else os.path.dirname(os.path.abspath(first)),
                    *map(os.path.abspath, named)]
    if first == "-c":
        code, *rest = rest
        sys.argv = ["-c", *rest]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def fork_server(path, words, passed, start=multiprocessing.util.spawnv_passfds):
    """What `multiprocessing` starts its forking process with: in a fork that one is a fork too."""
    if "multiprocessing.forkserver" not in words[-1]:
        return start(path, words, passed)
    child = os.fork()
    if child:
        return child
    # As after `exec`: nothing is open, nothing heard, nothing left to do that is the parent's.
    kept = [2, *sorted(passed), os.sysconf("SC_OPEN_MAX")]
    for before, after in itertools.pairwise(kept):
        os.closerange(before + 1, after)
    for number in signal.valid_signals() - {signal.SIGINT, signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    atexit._clear()
    for part in (forkserver._forkserver, resource_tracker._resource_tracker):
        part.__init__()
    end(exec, words[-1], {"__name__": "__main__"})


def end(action, *arguments):
    """Do something and end the process as Python would, but without taking torch to pieces."""
    try:
        code = action(*arguments)
    except SystemExit as error:
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit((code or 0) & 0xFF)


def import_packages():
    """All that is not ours; torchvision beside any torch, and nothing left of how that is done."""
    finders = list(sys.meta_path)
    runpy.run_path(str(ROOT / "mammoth" / "utils" / "torchvision_compat.py"))
    for name in PACKAGES:
        importlib.import_module(name)
    sys.meta_path[:] = finders


if __name__ == "__main__":
    import_packages()
    gc.freeze()  # forks leave what is imported where it is
    end(become, serve())
