"""Upper bounds in domain-IL: one head over all domains, or one a domain with its task known."""
import pytest
import torch
from runs import experiment, result_of, run_main

import npcl_plugin
from npcl_plugin.context import ContextSet

pytestmark = pytest.mark.long

FEW = ("--n_global", 2, "--n_global_eval", 2)


def joint(tmp_path, model, *more):
    """A run whose training set is the union of five permutations."""
    return experiment(tmp_path, "--model", model, "--dataset", "perm-digits", "--buffer_size", 60,
                      "--joint", 1, *FEW, *more)


def learn(run, steps=3):
    """The first steps as the training loop takes them, then the end of the task."""
    model = run.model
    loader, _ = run.dataset.get_data_loaders()
    model.net.train()
    model.meta_begin_task(run.dataset)
    for _, batch in zip(range(steps), loader, strict=False):
        terms = model.meta_observe(*batch[:3], epoch=0, task_ids=batch[3])
        assert torch.isfinite(torch.tensor(list(terms.values()))).all()
    model.args.debug_mode = 1
    model.meta_end_task(run.dataset)
    return model.eval()


def rows_of(union, images):
    """Where each image stands in the union, by looking at every row."""
    everything = union.fetch(slice(0, len(union)))[0]
    return [int((everything == image).flatten(1).all(1).nonzero()[0, 0]) for image in images]


@pytest.mark.parametrize("model", npcl_plugin.MODELS)
def test_joint_domains_have_one_head(tmp_path, model):
    run = joint(tmp_path, model)
    learned = learn(run)
    assert learned.net.plan.n_tasks == 1
    assert learned.buffer.task_labels.unique().tolist() == [0]
    assert learned.predict(torch.rand(2, 1, 8, 8)).logits.shape[::2] == (1, 2)


@pytest.mark.parametrize("model", ["npcl", "st_npcl"])
def test_multitask_knows_the_domain_of_each_sample(tmp_path, model):
    run = joint(tmp_path, model, "--multitask", 1)
    learned = learn(run)
    assert learned.net.plan.n_tasks == 5
    assert learned.net.memory.recorded.all()
    assert learned.predict(torch.rand(2, 1, 8, 8)).logits.shape[0] == 5
    rows = rows_of(run.dataset.train_loader.dataset, learned.buffer.examples[:60])
    assert learned.buffer.task_labels[:60].tolist() == [row // 1438 for row in rows]
    assert len(learned.buffer.task_labels.unique()) == 5


def test_the_context_is_the_union_of_the_tasks_contexts(tmp_path):
    union = joint(tmp_path, "npcl").dataset.get_data_loaders()[0].dataset
    union.targets[7] = -1  # unlabelled rows never serve as context
    context = ContextSet()
    context.choose(union, 4)
    cells = context.task_ids * 10 + context.labels
    assert cells.bincount().tolist() == [4] * 50
    rows = rows_of(union, context.examples[::9])
    assert [row // 1438 for row in rows] == context.task_ids[::9].tolist()
    again = ContextSet()
    again.load_state_dict(context.state_dict())
    torch.manual_seed(1)
    first = context.sample(6, torch.device("cpu"))
    torch.manual_seed(1)
    for one, other in zip(first, again.sample(6, torch.device("cpu")), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("more", [(), ("--multitask", 1)], ids=str)
def test_joint_domains_from_the_command_line(tmp_path, more):
    result = result_of(run_main(
        "--model", "npcl", "--dataset", "perm-digits", "--joint", 1, "--buffer_size", 200,
        "--n_epochs", 2, "--seed", 0, "--base_path", tmp_path, "--non_verbose", 1, *FEW, *more))
    matrix = result["accuracy_matrix"]["domain-il"]
    assert [len(row) for row in matrix] == [5]
    assert sum(matrix[0]) / 5 > 80 and min(matrix[0]) > 60  # chance is 10
