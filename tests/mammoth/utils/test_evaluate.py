"""Accuracies against plain counting."""
from types import SimpleNamespace

import pytest
import torch

from utils.evaluate import evaluate, evaluation_mode, mask_classes


class Lookup(torch.nn.Module):
    """A "model" whose scores are its inputs."""

    def __init__(self, compatibility):
        super().__init__()
        self.COMPATIBILITY = compatibility
        self.args = SimpleNamespace(debug_mode=False, non_verbose=True)
        self.device = torch.device("cpu")
        self.net = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.BatchNorm1d(4))
        self.loss = torch.nn.functional.cross_entropy
        self.asked = []

    def get_debug_iters(self):
        return 0

    def forward(self, x, task=None):
        self.asked.append((task, self.net.training))
        return x.clone()


def benchmark(setting, tasks=2):
    generator = torch.Generator().manual_seed(1)
    loaders = []
    for task in range(tasks):
        low = 2 * task if setting == "class-il" else 0
        labels = torch.randint(low, low + 2, (9,), generator=generator)
        scores = torch.randn(9, 6, generator=generator)
        loaders.append([(scores[:5], labels[:5]), (scores[5:], labels[5:])])

    def offsets(task=None):
        if setting == "domain-il":
            return 0, 2
        task = tasks - 1 if task is None else task
        return 2 * task, 2 * task + 2

    return SimpleNamespace(test_loaders=loaders, SETTING=setting, N_CLASSES=6,
                           get_offsets=offsets)


def count_by_hand(dataset, known_task):
    result = []
    for task, loader in enumerate(dataset.test_loaders):
        right = total = 0
        for scores, labels in loader:
            for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
                low, high = dataset.get_offsets(task) if known_task else (
                    0, dataset.get_offsets()[1])
                best = max(range(low, high), key=lambda c, s=score: s[c])
                right += best == label
                total += 1
        result.append(100 * right / total)
    return result


def test_class_il_and_task_il_match_counting_by_hand():
    dataset = benchmark("class-il", tasks=3)
    accs, masked = evaluate(Lookup(["class-il"]), dataset)
    assert accs == pytest.approx(count_by_hand(dataset, known_task=False))
    assert masked == pytest.approx(count_by_hand(dataset, known_task=True))
    assert evaluate(Lookup(["class-il"]), dataset, last=True)[0] == accs[-1:]


def test_domain_il_scores_the_task_s_classes():
    dataset = benchmark("domain-il")
    assert evaluate(Lookup(["class-il", "domain-il"]), dataset)[0] == pytest.approx(
        count_by_hand(dataset, known_task=False))


def test_task_il_only_models_are_told_the_task_and_score_no_class_il():
    model = Lookup(["task-il"])
    accs, masked = evaluate(model, benchmark("class-il"))
    assert [task for task, _ in model.asked] == [0, 0, 1, 1]
    assert accs == [0, 0] and sum(masked) > 0


def test_loss_is_the_sum_of_batch_losses_over_samples():
    dataset = benchmark("class-il", tasks=1)
    *_, loss = evaluate(Lookup(["class-il"]), dataset, return_loss=True)
    expected = sum(torch.nn.functional.cross_entropy(s, y).item()
                   for s, y in dataset.test_loaders[0]) / 9
    assert loss == pytest.approx(expected, rel=1e-5)


def test_evaluation_is_in_eval_mode_and_restores_each_module_s_flag():
    model = Lookup(["class-il"])
    model.net[1].eval()
    evaluate(model, benchmark("class-il"))
    assert not any(training for _, training in model.asked)
    assert (model.training, model.net.training, model.net[0].training, model.net[1].training) \
        == (True, True, True, False)
    with pytest.raises(ZeroDivisionError), evaluation_mode(model):
        1 / 0  # noqa: B018
    assert model.net[0].training


def test_debug_mode_looks_at_a_few_batches():
    model = Lookup(["class-il"])
    model.args.debug_mode = True
    evaluate(model, benchmark("class-il"))
    assert len(model.asked) == 2


def test_mask_leaves_columns_beyond_the_benchmark():
    scores = torch.zeros(1, 8)
    mask_classes(scores, benchmark("class-il"), 1)
    assert torch.isinf(scores[0]).tolist() == [True, True, False, False, True, True, False, False]


@pytest.mark.parametrize("name", ["er", "rpc", "icarl", "lwf", "npcl"])
def test_asking_a_model_is_pure(name, tmp_path):
    from runs import experiment

    from backbone.MNISTMLP import BaseMNISTMLP

    words = ("--model", name, "--dataset", "seq-digits", "--n_epochs", 1, "--stop_after", 1,
             "--debug_mode", 1, "--disable_log", 1, "--lr", "0.1")
    words += () if name == "lwf" else ("--buffer_size", 20)
    run = experiment(tmp_path, *words)
    mlp = next(m for m in run.model.modules() if isinstance(m, BaseMNISTMLP))
    mlp._features[1] = torch.nn.Sequential(torch.nn.BatchNorm1d(100), torch.nn.Dropout())
    mlp._features[3] = frozen = torch.nn.BatchNorm1d(100)
    run.run()
    model = run.model.train()
    frozen.eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    images = next(iter(run.dataset.test_loaders[0]))[0][:6]
    together = model(images)
    alone = torch.cat([model(image[None]) for image in images])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    assert not together.requires_grad and torch.is_grad_enabled()
    assert model.training and model.net.training and not frozen.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_a_method_that_trains_through_itself_still_gets_gradients(tmp_path):
    from runs import experiment

    run = experiment(tmp_path, "--model", "rpc", "--dataset", "seq-digits", "--buffer_size", 20,
                     "--lr", "0.1", "--disable_log", 1)
    run.loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    before = [p.clone() for p in run.model.net.parameters()]
    run.model.meta_observe(*next(iter(run.loader))[:3])
    assert any(not torch.equal(a, b) for a, b in zip(before, run.model.net.parameters(),
                                                     strict=True))
