"""Runs from folders and from compact records; what makes them the same experiment."""
import json

import pytest
from report_fixture import summary, write_run

from experiments.command_line import portable
from experiments.commands import collect
from experiments.compact import read_compact, record_of, write_records
from experiments.identity import by_row, experiments_of, variant
from experiments.run import Damaged, LeftOut, Run, read_run, run_of_record
from experiments.run_folders import find_runs


def test_run_has_what_its_files_say(tmp_path):
    folder = write_run(tmp_path, measures=summary(), lr=0.1)
    run = read_run(folder)
    result = json.loads((folder / "result.json").read_text())
    assert (run.model, run.seed, run.buffer_size, run.seconds) == ("er", 0, 200, 12.5)
    assert run.matrix == result["accuracy_matrix"] and run.sequential
    assert run.transferred("backward_transfer") == -6.0 and run.arguments["lr"] == 0.1
    assert run.headline["ece"] == 0.1234 and run.section("cost", "storage", "der") == 10
    assert run.section("cost", "nothing", "here") is None and run.lacks == []


def test_record_and_folder_are_the_same_run(tmp_path):
    run = read_run(write_run(tmp_path, measures=summary(), n_epochs=2))
    again = run_of_record(json.loads(json.dumps(record_of(run))))
    assert (again.model, again.seed, again.accuracy) == (
        run.model, run.seed, {k: round(v, 3) for k, v in run.accuracy.items()})
    assert variant(again) == variant(run) and again.lacks == []
    assert again.headline["ece"] == run.headline["ece"]
    assert again.arguments["n_epochs"] == 2, "resolved settings are kept"
    assert again.section("confidence", "true_head", "by_class", "label")


def test_older_record_works_and_says_what_it_lacks():
    run = run_of_record({
        "model": "er", "dataset": "perm-mnist", "buffer_size": 500, "seed": 0,
        "accuracy": {"domain-il": 80.0},
        "command": "python mammoth/main.py --model er --dataset perm-mnist --lr 0.5 --seed 0"})
    assert run.setting == "domain-il" and run.seconds is None and variant(run) == "er, lr 0.5"
    assert run.lacks == ["resolved arguments", "number of parameters"]


@pytest.mark.parametrize("change, words", [
    ({"accuracy": {"domain-il": 101.0}}, "accuracy"), ({"model": "a\nb"}, "model"),
    ({"seed": True}, "seed"), ({"seed": 2 ** 70}, "seed"), ({"buffer_size": -1}, "buffer_size"),
    ({"accuracy_matrix": {"domain-il": [[1.0] * 2000]}}, "more than 1000 tasks"),
    ({"transfer": {"x": {"domain-il": "1"}}}, "transfer"), ({"seconds": -1}, "seconds")])
def test_wrong_types_are_named(change, words, tmp_path):
    folder = write_run(tmp_path)
    result = json.loads((folder / "result.json").read_text()) | change
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(Damaged, match=words):
        read_run(folder)
    runs, left_out = find_runs(tmp_path)
    assert runs == [] and words in str(left_out[0])


def test_same_command_with_other_resolved_settings_is_another_row():
    """A changed settings file: the command is the same, the experiment is not."""
    def run(seed, **arguments):
        return Run("er", "perm-mnist", "domain-il", {"domain-il": 70.0}, "", seed=seed,
                   buffer_size=200, arguments={"model": "er", **arguments})

    rows = by_row([run(0, lr=0.1), run(1, lr=0.1), run(0, lr=0.2), run(2)])
    assert {key[3]: len(runs) for key, runs in rows.items()} == {
        "er, lr 0.1": 2, "er, lr 0.2": 1, "er, settings not kept": 1}
    assert {key[3] for key in by_row([run(0, lr=0.1), run(1, lr=0.1)])} == {"er"}


def test_what_does_not_count_makes_no_other_experiment(tmp_path):
    for seed, more in enumerate(({"device": "0"}, {"notes": "x"}, {"results_path": "y"},
                                 {"eval_epochs": 1}, {"uncertainty": 1}, {"conf_key": "z"})):
        write_run(tmp_path, seed=seed, lr=1, **more)
    write_run(tmp_path, seed=9, lr=2, top=80.0)
    experiments, repeated = experiments_of(find_runs(tmp_path)[0])
    assert sorted(len(one.runs) for one in experiments) == [1, 6] and repeated == []
    assert {one.variant for one in experiments} == {"lr=1", "lr=2"}


def test_portable_command_has_nothing_of_a_machine():
    command = ("python mammoth/main.py --model er --base_path=/home/me --results_path /r --resume "
               "--non_verbose 1 --loadcheck /home/me/a.pt --notes 'two words' --seed 1")
    assert portable(command) == ("python mammoth/main.py --model er --base_path DATA --loadcheck "
                                 "a.pt --notes 'two words' --seed 1")


def test_portable_command_names_the_seed_and_no_folder_of_a_file():
    command = "python mammoth/main.py --model er --data=/home/me/a.npz --features timm/vit"
    assert portable(command, 7) == ("python mammoth/main.py --model er --data=a.npz --features "
                                    "timm/vit --seed 7")
    assert portable(f"{command} --seed=3", 3).endswith("--seed=3")


def test_runs_that_drew_their_seeds_are_records_of_their_own(tmp_path):
    def record(seed, accuracy):
        return record_of(Run("er", "seq-digits", "class-il", {"class-il": accuracy},
                             "python mammoth/main.py --model er --dataset seq-digits", seed=seed,
                             matrix={"class-il": [[accuracy]]}))

    out = tmp_path / "few.json"
    write_records([record(1, 50.0)], out, add=True)
    write_records([record(2, 60.0)], out, add=True)
    assert write_records([record(2, 70.0)], out, add=True) == 2
    assert [run.accuracy["class-il"] for run in read_compact(out)[0]] == [50.0, 70.0]


def test_a_command_with_its_arguments_in_another_order_is_the_same_command(tmp_path):
    out = tmp_path / "one.json"
    for words, accuracy in (("--model er --dataset seq-digits --buffer_size 50", 50.0),
                            ("--model er --buffer_size 50 --dataset=seq-digits", 60.0)):
        write_records([record_of(Run("er", "seq-digits", "class-il", {"class-il": accuracy},
                                     f"python mammoth/main.py {words}", seed=1,
                                     matrix={"class-il": [[accuracy]]}))], out, add=True)
    assert [run.accuracy["class-il"] for run in read_compact(out)[0]] == [60.0]


def test_a_place_that_cannot_be_written_is_a_mistake_of_the_command(tmp_path, capsys):
    assert collect.main([str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "--out" in capsys.readouterr().err


def test_sentence_about_a_run_is_one_printable_line():
    said = str(LeftOut("a\nb\x1b[31m\udcff", "because\n"))
    assert said.isprintable() and said.startswith("left out: a")
