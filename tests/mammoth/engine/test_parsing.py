"""Where each value of a run comes from."""
import pytest

from engine.errors import UsageError
from main import parse_args
from utils.args import check_no_duplicates

ER = ["--model", "er", "--dataset", "seq-cifar10", "--buffer_size", "200"]


def test_published_settings_are_the_default_and_say_so():
    args = parse_args(ER)
    assert (args.lr, args.batch_size, args.minibatch_size, args.n_epochs) == (0.1, 32, 32, 50)
    assert args.conf_sources["lr"] == "published: seq-cifar10, buffer 200"
    assert args.conf_sources["backbone"] == "seq-cifar10"


def test_command_line_wins_over_everything():
    args = parse_args([*ER, "--lr", "0.5", "--minibatch_size", "7"])
    assert (args.lr, args.minibatch_size) == (0.5, 7)
    assert args.conf_sources["lr"] == "command line"


def test_unpublished_buffer_size_takes_the_nearest_and_names_it():
    args = parse_args(["--model", "er", "--dataset", "seq-tinyimg", "--buffer_size", "300"])
    assert args.conf_sources["lr"] == "published: seq-tinyimg, buffer 200 (nearest to 300)"


def test_model_config_best_demands_the_exact_entry():
    with pytest.raises(UsageError, match="no published settings of er.*buffer size 300"):
        parse_args([*ER[:-1], "300", "--model_config", "best"])
    assert parse_args([*ER, "--load_best_args"]).model_config == "best"


def test_model_config_base_has_no_learning_rate():
    with pytest.raises(UsageError, match="--lr is needed"):
        parse_args([*ER, "--model_config", "base"])


def test_dataset_scheduler_is_a_default_of_the_benchmark():
    args = parse_args(["--model", "er", "--dataset", "seq-cifar100", "--buffer_size", "500"])
    assert (args.lr_scheduler, args.lr_milestones) == ("multisteplr", [35, 45])
    assert args.conf_sources["lr_scheduler"] == "seq-cifar100"


@pytest.mark.parametrize("spelling", ["er_ace", "er-ace"])
def test_names_with_dashes_and_underscores_are_the_same(spelling):
    args = parse_args(["--model", spelling, "--dataset", "seq_digits", "--buffer_size", "9",
                       "--lr", "0.1"])
    assert (args.model, args.dataset) == ("er-ace", "seq-digits")


def test_a_seed_is_drawn_when_none_is_given():
    first, second = parse_args(ER), parse_args(ER)
    assert first.conf_sources["seed"] == "drawn at random" and first.seed != second.seed
    assert first.conf_key == second.conf_key


def test_the_key_of_a_run_is_what_decides_its_numbers():
    base = parse_args([*ER, "--seed", "1"]).conf_key
    assert parse_args([*ER, "--seed", "1", "--notes", "x", "--non_verbose", "1"]).conf_key == base
    assert parse_args([*ER, "--seed", "1", "--lr", "0.1"]).conf_key == base
    assert parse_args([*ER, "--seed", "2"]).conf_key != base
    assert parse_args([*ER, "--seed", "1", "--lr", "0.2"]).conf_key != base


@pytest.mark.parametrize(("words", "sentence"), [
    (["--buffer_size", "0"], "Expected --buffer_size to be at least 1, but got 0."),
    (["--buffer_size", "9", "--buffer_size", "9"], "--buffer_size is given twice"),
    (["--bufer_size", "9"], "did you mean --buffer_size"),
    ([], "--buffer_size is needed: er replays samples"),
    (["--buffer_size", "9", "--label_perc", "1.5"], "--label_perc to be above 0"),
    (["--buffer_size", "9", "--label_perc", "0.5", "--lpc", "0.5"], "exclude each other"),
    (["--buffer_size", "9", "--noise_rate", "2"], r"--noise_rate to lie in \[0, 1\]"),
    (["--buffer_size", "9", "--fitting_mode", "iters"], "needs --n_iters"),
    (["--buffer_size", "9", "--fitting_mode", "early_stopping"], "needs --validation"),
    (["--buffer_size", "9", "--joint", "1", "--stop_after", "2"], "--joint 1 has a single task"),
    (["--buffer_size", "9", "--inference_only", "1", "--savecheck", "last"], "nothing to save"),
    (["--buffer_size", "9", "--start_from", "9"], r"--start_from to lie in 0\.\.5"),
    (["--buffer_size", "9", "--lr", "-1"], "--lr to be above 0"),
    (["--buffer_size", "9", "--non_verbose", "maybe"], "expected 0 or 1, but got `maybe`"),
    (["--buffer_size", "9", "--dataset_config", "nope"], "no variant `nope`"),
    (["--buffer_size", "9", "--backbone", "resnet81"], "did you mean `resnet18`"),
    (["--buffer_size", "9", "--loadcheck", "nowhere.pt"], "Cannot read the checkpoint"),
])
def test_mistakes_get_one_sentence(words, sentence):
    with pytest.raises(UsageError, match=sentence) as caught:
        parse_args(["--model", "er", "--dataset", "seq-digits", *words])
    assert "\n" not in str(caught.value) and str(caught.value).endswith((".", "?"))


def test_equal_negative_values_of_two_flags_are_fine():
    parser = _parser()
    for flag in ("--left", "--right"):
        parser.add_argument(flag, type=float)
    words = ["--left", "-1e-3", "--right", "-1e-3"]
    check_no_duplicates(words, parser)
    assert vars(parser.parse_args(words)) == {"left": -0.001, "right": -0.001}


def test_unsuitable_setting_is_refused_before_any_data_is_read():
    with pytest.raises(UsageError, match="icarl works in .* but perm-mnist is domain-il"):
        parse_args(["--model", "icarl", "--dataset", "perm-mnist", "--buffer_size", "9",
                    "--lr", "0.1"])


def test_yaml_with_an_unknown_argument_is_an_error(tmp_path, monkeypatch):
    from models.er import Er

    path = tmp_path / "er.yaml"
    path.write_text("seq-digits: {lr: 0.1, nonsense: 3}\n")
    monkeypatch.setattr(Er, "CONFIG_PATH", str(path), raising=False)
    with pytest.raises(UsageError, match="`nonsense`, which is no argument of er"):
        parse_args(["--model", "er", "--dataset", "seq-digits", "--buffer_size", "9"])


def test_every_shipped_yaml_names_only_arguments_that_exist():
    from datasets import REGISTRY as DATASETS
    from engine.config import model_config_path, read_yaml
    from engine.plugins import load_plugins
    from engine.settings import file_chain
    from models import REGISTRY as MODELS

    load_plugins()
    checked = 0
    for model in MODELS.names():
        path = getattr(MODELS[model], "CONFIG_PATH", None) or model_config_path(model)
        sizes: dict[str, set[int]] = {}
        for _, content in file_chain(path, read_yaml) if path else ():
            for dataset in set(content) & set(DATASETS.names()):
                sizes.setdefault(dataset, set()).update(
                    key for key in content[dataset] or {} if isinstance(key, int))
        for dataset, known in sizes.items():
            for size in known or [200]:
                words = ["--model", model, "--dataset", dataset]
                if dataset == "features":  # any file: nothing is read from it here
                    words += ["--features", __file__, "--classes_per_task", "2"]
                if "--buffer_size" in MODELS[model].get_parser(_parser()).format_help():
                    words += ["--buffer_size", str(size)]
                assert parse_args(words).conf_sources
                checked += 1
    assert checked > 90


def _parser():
    from utils.args import ArgumentParser

    return ArgumentParser(add_help=False)


def test_what_a_methods_own_code_sets_need_not_be_something_to_type(monkeypatch):
    """As in upstream's gdumb.py, which has no use for --lr and says so with 0."""
    from models.sgd import Sgd

    def get_parser(parser):
        parser.set_defaults(lr=0)
        return parser

    monkeypatch.setattr(Sgd, "get_parser", staticmethod(get_parser))
    words = ["--model", "sgd", "--dataset", "seq-digits", "--model_config", "base"]
    assert parse_args(words).lr == 0
    assert parse_args([*words, "--lr", "0.1"]).lr == 0.1
