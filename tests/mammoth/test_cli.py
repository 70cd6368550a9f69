"""main.py as a user types it."""
import io
import json
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest
import warm_python
from runs import MAIN, ROOT, result_of, run_main, run_main_cold

from main import cli

pytestmark = pytest.mark.long


def test_help_alone_lists_everything_at_once():
    start = time.time()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    torch_seconds = time.time() - start
    start = time.time()
    page = run_main_cold("--help")
    assert time.time() - start < 1.3 * torch_seconds
    assert page.returncode == 0
    for word in ("--lr", "--savecheck", "seq-cifar10", "derpp",
                 "reduced-resnet18", "example:"):
        assert word in page.stdout


def test_help_with_model_and_dataset_adds_theirs_with_defaults():
    page = run_main("--model", "der", "--dataset", "seq-cifar10", "--buffer_size", 500,
                    "--help").stdout
    lines = " ".join(page.split())
    assert "distance to the stored logits (default: 0.3)" in lines
    assert "learning rate (default: 0.03)" in lines and "--buffer_size" in page
    assert "--transform_type" in page and "--num_filters" in page


def test_help_with_a_model_alone_adds_its_arguments():
    page = run_main("--model", "der", "--help")
    assert page.returncode == 0 and "--alpha" in page.stdout


@pytest.mark.parametrize(("words", "code", "sentence"), [
    (("--model", "err", "--dataset", "seq-digits"), 2, "did you mean `er`"),
    (("--model", "er", "--dataset", "seq-cifar11"), 2, "did you mean `seq-cifar10`"),
    (("--dataset", "seq-digits"), 2, "--model is needed"),
    (("--model", "er", "--dataset", "seq-mnist", "--buffer_size", "9"), 2,
     "train-images-idx3-ubyte"),
    (("--model", "sgd", "--dataset", "seq-digits", "--lr", "1e12"), 1, "The loss became"),
    (("--model", "sgd", "--dataset", "seq-digits", "--results_path", "/dev/null/x"), 2,
     "choose another folder with --results_path"),
    (("--model", "sgd", "--dataset", "seq-digits", "--device", "qpu"), 2, "--device to be cpu"),
])
def test_mistakes_are_one_sentence_and_an_exit_code(tmp_path, words, code, sentence, monkeypatch,
                                                    capsys):
    monkeypatch.setattr(sys, "argv", ["main.py", *words, "--base_path", str(tmp_path),
                                      "--non_verbose", "1"])
    assert cli() == code
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ") and sentence in last


def test_a_mistake_leaves_no_traceback_in_a_real_process():
    done = run_main_cold("--model", "err", "--dataset", "seq-digits")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1


def test_run_prints_settings_with_sources_and_mammoths_lines(tmp_path):
    done = run_main_cold("--model", "sgd", "--dataset", "seq-digits", "--seed", 3, "--base_path",
                         tmp_path, "--verbose", 1)
    assert result_of(done)["seed"] == 3
    line = next(line for line in done.stdout.splitlines() if line.strip().startswith("--lr "))
    assert line.split() == ["--lr", "0.1", "ours,", "validation", "split:", "seq-digits"]
    assert "--sched_multistep_lr_gamma 0.1 default" in " ".join(done.stdout.split())
    last = [line for line in done.stdout.splitlines() if line.startswith("Accuracy for 5")][0]
    assert "[Class-IL]:" in last and "[Task-IL]:" in last
    assert "\tRaw accuracy values: Class-IL [" in done.stdout
    assert done.stderr == ""


def test_a_run_begins_with_what_was_chosen_and_ends_with_the_report_command(tmp_path, capsys,
                                                                            monkeypatch):
    monkeypatch.setattr(sys, "argv", ["main.py", "--model", "er", "--dataset", "seq-digits",
                                      "--buffer_size", "20", "--debug_mode", "1", "--seed", "3",
                                      "--base_path", str(tmp_path)])
    assert cli() == 0
    lines = capsys.readouterr().out.splitlines()
    first = lines.index(next(line for line in lines if line.startswith("Running er")))
    assert first < 9 and "lr " in " ".join(lines[:first]) and "sched" not in " ".join(lines[:first])
    folder = next(tmp_path.glob("results/runs/*/*/*"))
    assert lines[-2].startswith("er on seq-digits: Class-IL ")
    assert lines[-2].endswith(f"report.py {folder}")
    assert lines[-1] == f"Result: {folder}/result.json"


class Screen(io.StringIO):
    """A terminal that remembers."""

    def isatty(self):
        return True


def test_one_bar_counts_the_steps_of_the_whole_run(monkeypatch):
    from engine.console import RunBar

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    args = Namespace(non_verbose=False, fitting_mode="epochs", n_epochs=3)
    model = Namespace(opt=Namespace(param_groups=[{"lr": 0.1}]))
    with RunBar(args, 4) as bar:
        bar.begin_task(1, n_batches=5, done=2)  # resumed after two steps of the second task
        assert bar.remaining == 3 * 15 - 2
        bar.begin_epoch(1, 0)
        bar.step({"loss": 1.0}, model)
        assert bar.remaining == 3 * 15 - 3
        args.fitting_mode, args.n_iters = "iters", 7
        bar.begin_task(2, n_batches=5, done=0)
        assert bar.remaining == 2 * 7
    assert "/43" in screen.getvalue()


def test_resume_of_a_finished_run_repeats_nothing(tmp_path):
    words = ("--model", "sgd", "--dataset", "seq-digits", "--seed", 3, "--base_path", tmp_path,
             "--checkpoint_path", tmp_path / "c", "--resume", "--non_verbose", 1)
    first = run_main(*words)
    again = run_main(*words)
    assert result_of(first) == result_of(again)
    assert "finished already" in again.stdout
    assert "Nothing to resume" in first.stderr


def test_results_path_is_below_base_path_unless_absolute(tmp_path):
    words = ("--model", "sgd", "--dataset", "seq-digits", "--debug_mode", 1, "--non_verbose", 1)
    run_main(*words, "--base_path", tmp_path / "a", "--results_path", "mine")
    run_main(*words, "--base_path", tmp_path / "a", "--results_path", tmp_path / "b")
    assert (tmp_path / "a" / "mine" / "class-il").is_dir()
    assert (tmp_path / "b" / "class-il").is_dir()


def test_working_folder_does_not_matter_and_stays(tmp_path):
    done = run_main("--model", "sgd", "--dataset", "seq-digits", "--debug_mode", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("data/results/runs/seq-digits/sgd/*/result.json"))) == 1


def test_published_command_reads_cifar10_and_trains(tmp_path, real_data):
    done = run_main("--model", "er", "--dataset", "seq-cifar10", "--buffer_size", 200,
                    "--base_path", real_data, "--results_path", tmp_path, "--fitting_mode", "iters",
                    "--n_iters", 1, "--stop_after", 1, "--backbone", "reduced-resnet18",
                    "--batch_size", 16, "--debug_mode", 1)
    assert len(result_of(done)["accuracy_matrix"]["class-il"]) == 1


def test_harness_works_without_the_plugin_and_the_scripts(tmp_path):
    import shutil

    shutil.copytree(MAIN.parent, tmp_path / "mammoth", ignore=shutil.ignore_patterns("__pycache__"))
    code = warm_python.run([sys.executable, tmp_path / "mammoth" / "main.py", "--model", "er",
                            "--dataset", "seq-digits", "--buffer_size", "20", "--debug_mode", "1",
                            "--base_path", tmp_path / "d"])
    assert code.returncode == 0, code.stderr


def test_package_offers_upstreams_names():
    code = ("import mammoth; from mammoth import load_runner, train, get_avail_args; "
            "model, dataset = load_runner('er', 'seq-digits', {'buffer_size': 9, 'seed': 1, "
            "'debug_mode': 1, 'disable_log': 1, 'non_verbose': 1}); "
            "assert train(model, dataset)['accuracy']['task-il'] > 40; "
            "need, other = get_avail_args('seq-mnist', 'der'); "
            "assert set(need) == {'buffer_size', 'alpha', 'lr'} - set(other), need; "
            "assert all(hasattr(mammoth, name) for name in mammoth.__all__)")
    done = warm_python.run([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_result_json_is_valid_json_and_complete(tmp_path):
    done = run_main("--model", "sgd", "--dataset", "perm-digits", "--base_path", tmp_path,
                    "--non_verbose", 1)
    result = result_of(done)
    path = next(Path(tmp_path).glob("results/runs/*/*/*/result.json"))
    assert json.loads(path.read_text()) == result
    assert set(result["accuracy"]) == {"domain-il"} and result["seconds"] > 0
    assert result["peak_memory_mb"] > 50 and result["n_parameters"] > 1000
