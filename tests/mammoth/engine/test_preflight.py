"""What cannot train anything is refused before it starts."""
import pytest

from engine.errors import UsageError
from main import initialize, parse_args
from utils.conf import get_device

SGD = ["--model", "sgd", "--dataset", "seq-digits", "--seed", "0"]
CIFAR = ["--model", "sgd", "--dataset", "seq-cifar10", "--seed", "0"]


@pytest.mark.parametrize(("words", "sentence"), [
    ([*SGD, "--backbone", "resnet18"], r"resnet18 does not take the images of seq-digits \(1 x 8"),
    ([*SGD, "--input_size", "63"], "leave out --input_size"),
    ([*CIFAR, "--backbone", "mnistmlp", "--input_size", "784"], "3 x 32 x 32"),
    ([*SGD, "--num_classes", "3"], "Expected --num_classes to be 10, the classes of seq-digits"),
    ([*SGD, "--num_classes", "11"], "Expected --num_classes to be 10, the classes of seq-digits"),
    (["--model", "er", *SGD[2:], "--buffer_size", str(10**12)], r"needs 238,419 GB.* smaller one"),
    ([*SGD, "--device", "xla"], "Expected --device to be cpu"),
    ([*SGD, "--device", "meta"], "Expected --device to be cpu"),
    ([*SGD, "--device", "9" * 30], "Expected --device to be cpu|asks for a GPU"),
    ([*SGD, "--device", "999"], "Expected --device to be cpu|asks for a GPU"),
])
def test_what_does_not_fit_is_refused_when_the_run_is_built(words, sentence):
    with pytest.raises(UsageError, match=sentence):
        initialize(parse_args(words))


@pytest.mark.parametrize(("words", "sentence"), [
    (["--batch_size", "100000", "--drop_last", "1"], "too few for a batch of --batch_size 100000"),
    (["--batch_size", "100000", "--drop_last", "1", "--fitting_mode", "iters", "--n_iters", "9"],
     "too few for a batch"),
    (["--label_perc", "0.001"], "leaves class 0 of task 1 without a single label"),
    (["--label_perc_by_class", "0.001"], "leaves class 0 of task 1 without a single label"),
])
def test_a_task_without_samples_is_refused(words, sentence):
    _, dataset, _ = initialize(parse_args([*SGD, *words]))
    with pytest.raises(UsageError, match=sentence):
        dataset.get_data_loaders()


def test_known_devices_are_found():
    assert get_device("cpu").type == "cpu"
