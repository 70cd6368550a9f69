"""Runs on features stand in lists of their own, the best first, few-shot replay apart."""
from experiments.run import run_of_record
from experiments.tables.features import features
from experiments.tables.sections import MeasuredRuns


def tables(*runs):
    return list(features(MeasuredRuns.of(list(runs))))


def on_features(model, size, seed, value, uncertainty=None, **more):
    settings = {"features": "efficientnet-lite0", "permute_classes": "1", **more}
    given = {name: v for name, v in {**settings, "seed": seed, "buffer_size": size}.items() if v}
    words = " ".join(f"--{name} {v}" for name, v in given.items())
    return run_of_record({
        "model": model, "dataset": "seq-cifar10", "setting": "class-il", "buffer_size": size,
        "seed": seed, "accuracy": {"class-il": value}, "backward_transfer": -value / 10,
        "seconds": 1.0, "n_parameters": 100, "uncertainty": uncertainty or {},
        "command": f"python mammoth/main.py --model {model} --dataset seq-cifar10 {words}"})


def test_the_best_of_each_buffer_comes_first_and_closed_forms_before_all():
    table, = tables(on_features("er", 200, 0, 70.0), on_features("er", 200, 1, 72.0),
                    on_features("der", 200, 0, 80.0), on_features("er", 500, 0, 90.0),
                    on_features("ncm", 0, 0, 60.0))
    assert [(row[0], row[1], row[-1]) for row in table.rows] == [
        ("-", "`ncm`", "1"), ("200", "`der`", "1"), ("200", "`er`", "2"), ("500", "`er`", "1")]
    assert table.rows[2][2:4] == ["71.0 ± 1.4", "-7.1 ± 0.1"]


def test_other_protocols_and_fixed_class_orders_are_not_in_it():
    assert not tables(on_features("er", 200, 0, 70.0, permute_classes=0),
                      on_features("er", 200, 0, 70.0, features=""),
                      on_features("er", 200, 0, 70.0, validation=10))


def test_few_shot_replay_has_a_table_of_its_own():
    first, few = tables(on_features("er", 5, 0, 20.0), on_features("er", 10, 0, 30.0),
                        on_features("er", 10, 1, 32.0), on_features("npcl", 10, 0, 50.0),
                        on_features("er", 200, 0, 70.0))
    assert [row[0] for row in first.rows] == ["200"]
    assert few.rows == [["`npcl`", "", "50.0 (1)"], ["`er`", "20.0 (1)", "31.0 ± 1.4 (2)"]]


def test_calibration_and_novelty_are_shown_where_they_were_measured():
    headline = {"ece": 0.25, "auroc_entropy": 0.8}
    table, = tables(on_features("er", 200, 0, 70.0, uncertainty={"headline": headline}))
    assert table.rows[0][4:6] == ["0.250", "0.800"]
