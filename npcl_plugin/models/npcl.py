"""NPCL: Neural Processes for uncertainty-aware Continual Learning (Jha et al., NeurIPS 2023).

Equations 4 to 9 of the paper. Where the paper is silent or contradicts itself:
 - the KL terms are closed-form, the JS divergence is the surrogate of `gaussians.js`;
 - stream and replay are two sets with a global latent each (`--one_pass 1`: one set);
 - warm-up counts iterations from the start of training, not of each task;
 - the distribution memory records the set of stream and replay together.
"""
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from npcl_plugin import contract
from npcl_plugin.answers import Prediction
from npcl_plugin.arguments import add_arguments, check_arguments
from npcl_plugin.context import CONTEXTS, Context, covering_rows
from npcl_plugin.contract import (
    Buffer,
    ContinualModel,
    apply_transform,
    evaluation_mode,
    register_model,
    resolves_settings,
    usage_error,
)
from npcl_plugin.distribution_memory import RunningAverages
from npcl_plugin.generators import untouched_generators
from npcl_plugin.gradients import cap, norm_of
from npcl_plugin.graphs import StepGraphs
from npcl_plugin.inference import Predictor
from npcl_plugin.input_memory import InputMemory, group_count, groups_of
from npcl_plugin.kernels.build import available
from npcl_plugin.layout import Blocks
from npcl_plugin.network import NPNetwork
from npcl_plugin.plan import Draws, Plan
from npcl_plugin.recall import Recall
from npcl_plugin.settings import complete
from npcl_plugin.stream import ClassMeans, refuse_where_features_drift
from npcl_plugin.tasks import class_ends, task_ids_of, tasks_of
from npcl_plugin.terms import Forwards, Loss, Step, Targets
from npcl_plugin.warm_up import steps_of_task, warm_up

# Of the end-of-task pass: encoded in one go, though none sees another.
_BATCHES_TOGETHER = 16


@register_model("npcl")
class NPCL(ContinualModel):
    """Global and task-specific latents, regularised towards what they were."""

    NAME = "npcl"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]
    CONFIG_PATH = Path(__file__).parent / "config" / "npcl.yaml"
    INFERENCE_ARGUMENTS = ("head_inference", "n_global_eval", "n_task", "eval_context",
                           "novelty_by")
    HAS_GLOBAL = True
    HAS_TASK = True
    ATTENTION = True

    @staticmethod
    def get_parser(parser: Any) -> Any:
        """The family's arguments."""
        add_arguments(parser)
        return parser

    def __init__(self, backbone: Any, loss: Any, args: Any, transform: Any,
                 dataset: Any = None) -> None:
        if not resolves_settings():
            complete(args, self.NAME, dataset)
        check_arguments(args, self.HAS_TASK, dataset)
        ends = class_ends(dataset, args) if args.multitask else None
        n_heads = 1 if not self.HAS_TASK else len(ends) if ends else dataset.N_TASKS
        attention = self.ATTENTION and args.attention_heads > 0
        args.kernels = "compiled" if available(args.kernels) else "torch"
        net = backbone if isinstance(backbone, NPNetwork) else NPNetwork(backbone)
        net.configure(Plan(
            n_tasks=n_heads, n_classes=dataset.N_CLASSES, latent_size=args.latent_size,
            depth=args.np_depth, norm=bool(args.np_norm), n_attention_heads=args.attention_heads,
            has_global=self.HAS_GLOBAL, has_task=self.HAS_TASK,
            residual_decoder=bool(args.residual_decoder), decoder_depth=args.decoder_depth,
            draws_per_target=args.draws_per_target,
            decoder_width=args.decoder_width, encoders=args.encoders,
            global_draws=args.global_draws,
            n_anchors=dataset.N_TASKS if args.gr_against == "all" else 1, attention=attention,
            compiled=args.kernels == "compiled"))
        if args.stream_context:
            # Random weights would stay wherever samples hardly differ.
            torch.nn.init.zeros_(net.decoder.from_x.weight)
        if args.slow_decay:
            net.average(args.slow_decay)
        super().__init__(net, loss, args, transform, dataset)
        self.class_ends = ends
        self.objective = Loss(args, net.plan)
        self.graphs = StepGraphs(net, args)
        self.steps = 0
        self.buffer = Buffer(args.buffer_size, device="cpu")
        self.context = CONTEXTS[args.context_from]()
        self.warm_up = warm_up(args)
        self.class_means: ClassMeans | None = None
        if args.stream_context:
            refuse_where_features_drift(args)
            self.class_means = ClassMeans(dataset.N_CLASSES, dataset.SIZE[0],
                                          args.stream_shrinkage)
        self.input_memory = InputMemory(group_count(dataset)) if args.input_memory else None
        self.predictor = Predictor(
            net.answering, lambda: self.buffer, self.normalise, mode=args.head_inference,
            draws=Draws(args.n_global_eval, args.n_task), seed=int(args.seed or 0),
            context_size=args.eval_context, class_means=self.class_means,
            input_memory=self.input_memory, novelty_by=args.novelty_by)
        self.recall = Recall(
            net.answering, args.head_inference, Draws(args.n_global_eval, args.n_task),
            int(args.seed or 0)) if args.stream_recall else None
        self.recording: Any = None
        if not resolves_settings():
            from npcl_plugin.uncertainty.upstream import recording_for

            self.recording = recording_for(self, args)

    def end_epoch(self, epoch: int, dataset: Any) -> None:
        """Upstream's hook; our harness records by itself."""
        if self.recording is not None:
            self.recording.after_epoch(epoch, dataset)

    def end_eval(self, dataset: Any, accs: Any) -> None:
        """Upstream's hook after a task was evaluated; our harness records by itself."""
        if self.recording is not None:
            self.recording.after_eval(dataset, accs)

    def get_parameters(self) -> Iterator[torch.nn.Parameter]:
        """What the optimiser trains: all but the slow weights."""
        return (p for p in self.net.parameters() if p.requires_grad)

    def begin_task(self, dataset: Any) -> None:
        """Choose D_C^t; the new task's head takes part in inference from now on."""
        if self.HAS_GLOBAL and self.args.gamma and self.steps and self.current_task \
                and self.net.memory.blank:
            raise usage_error("--gamma holds the global latent to what was recorded after the last "
                              "task, but a run with --gamma 0 recorded nothing; give that too.")
        self.net.n_heads.fill_(len(self.class_ends) if self.class_ends else self.current_task + 1)
        self.context.choose(dataset.train_loader.dataset, self.args.context_per_class)
        self.warm_up.begin_task(dataset)
        if self.recall is not None:
            self.recall.begin_task(self.predictor.context(self.args.eval_context))
        if self.input_memory is not None:
            examples, labels = self.context.examples, self.context.labels
            assert examples is not None and labels is not None  # just chosen
            self.input_memory.add(self.normalise(examples),
                                  groups_of(labels, self.current_task, dataset))
        # The first task has no past, so that a graph of its steps serves no other.
        tasks_ahead = self.N_TASKS - self.current_task if self.current_task else 1
        self.graphs.begin_task(steps_of_task(dataset, self.args) * tasks_ahead)
        if self.class_means is not None:
            self.class_means.add(dataset.train_loader.dataset, self.tasks_of)

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None,
                task_ids: torch.Tensor | None = None) -> dict[str, float]:
        """One step of equation 8; returns the loss and its terms."""
        targets = self.gather(inputs, labels, task_ids)
        found = self.graphs(targets, self.objective, self.current_task) or self.forwards(targets)
        self.descend(found)
        stored = {} if found.mean_logits is None else {"logits": found.mean_logits[:len(labels)]}
        self.buffer.add_data(examples=not_aug_inputs, labels=labels,
                             task_labels=targets.tasks[:len(labels)], **stored)
        return found.values

    def forwards(self, targets: Targets) -> Forwards:
        """The loss of equation 8."""
        args = self.args
        out = self.net.training_pass(
            targets.x, targets.labels, targets.tasks, context=targets.context,
            draws=Draws(args.n_global, args.n_task), sets=targets.sets,
            from_context=args.latents_from == "context",
            n_misdirected=int(self.net.n_heads) if args.noisy_context else 0)
        step = Step(self.net, args, targets, out, self.current_task)
        loss, terms = self.objective(step)

        def backward() -> torch.Tensor:
            self.opt.zero_grad()
            loss.backward()
            return norm_of((p.grad for p in self.net.process_parameters),
                           self.net.plan.compiled)

        return Forwards({"loss": loss.item(), **terms}, backward,
                        step.mean_logits.detach() if args.dark_replay else None)

    def gather(self, inputs: torch.Tensor, labels: torch.Tensor,
               task_ids: torch.Tensor | None = None) -> Targets:
        """Stream with its context (C within T) and replay, through the backbone in one go."""
        args, first = self.args, len(inputs)
        share = float(args.context_share)
        added, context_labels, ids = self.context.of_stream(inputs, labels, task_ids, share,
                                                            self.transform)
        images = [inputs, added]
        labels = torch.cat((labels, context_labels))
        both = None if task_ids is None or ids is None else torch.cat((task_ids, ids))
        tasks = self.tasks_of(labels, both)
        context = torch.arange(first, len(labels), device=self.device)
        if self.class_ends:  # several tasks at once: each needs a context point
            context = covering_rows(tasks, len(context))
        sets, replayed, stored = torch.zeros_like(labels), 0, None
        if self.class_means is not None:
            count = args.stream_context
            past = self.class_means.rehearsal(inputs, labels[:first], count,
                                              self.context.size(count, share), self.current_task)
            images.append(past.x)
            n_means = max(len(past.labels) - count, 0)
            context = torch.cat((context, torch.arange(n_means, device=self.device) + len(labels)))
            sets = torch.cat((sets, torch.full_like(past.labels, 0 if args.one_pass else 1)))
            labels, tasks = torch.cat((labels, past.labels)), torch.cat((tasks, past.tasks))
        if not self.buffer.is_empty() and args.minibatch_size > 0:
            replay = self.buffer.get_data(args.minibatch_size, transform=self.transform,
                                          device=self.device)
            images.append(replay[0])
            replayed, stored = len(replay[0]), replay[2] if args.dark_replay else None
            chosen = self.context.of_replay(replay[1], replay[-1], share) + len(labels)
            context = torch.cat((context, chosen))
            sets = torch.cat((sets, torch.full_like(replay[1], 0 if args.one_pass else 1)))
            labels, tasks = torch.cat((labels, replay[1])), torch.cat((tasks, replay[-1]))
        batch = torch.cat(images)
        x = self.net.features(batch)  # (B, F)
        recalled = None if self.recall is None else \
            self.recall.log_probs(batch[:len(batch) - replayed])
        return Targets(x, labels, tasks, sets, context, replayed, stored,
                       self.log_odds(tasks, replayed), recalled)

    def descend(self, found: Forwards) -> None:
        """One step down, unless something is not finite: then the weights stay as they were."""
        if all(map(math.isfinite, found.values.values())):
            cap(self.net.process_parameters, self.args.grad_cap, found.backward())
            if self.class_means is not None:
                self.class_means.shape_step(self.net.decoder.from_x.weight)
            scaled_step(self.opt, self.rate_factor())
            self.steps += 1
            if self.net.slow is not None:
                self.net.slow.follow(self.net)

    def rate_factor(self) -> float:
        """Of the learning rate: it rises at the beginning, and falls from task to task."""
        rise: float = self.warm_up.factor(self.steps, self.task_iteration)
        return float(rise * (self.current_task + 1) ** -self.args.rate_decay)

    @torch.no_grad()
    def end_task(self, dataset: Any) -> None:
        """A pass over the task with replay fills the distribution memory, if it is read."""
        if self.task_iteration == 0:  # nothing was learned (--start_from, --inference_only)
            return
        if self.memory_is_used():
            self.remember(dataset)
        elif self.HAS_GLOBAL and getattr(self.args, "uncertainty", False):
            with untouched_generators():  # a run goes on as it would without its records
                self.remember(dataset)

    def memory_is_used(self) -> bool:
        """Whether training or answers will ask for what the distributions are now.

        GR and TR do, and heads without a sample in the context; the only head has some as soon
        as the buffer has.
        """
        return self.HAS_TASK or (
            self.HAS_GLOBAL and (self.args.gamma > 0 or self.buffer.is_empty()))

    def remember(self, dataset: Any) -> None:
        """The pass itself."""
        new = range(len(self.class_ends)) if self.class_ends else [self.current_task]
        averages = RunningAverages(self.net.memory, torch.tensor(new, device=self.device))
        replay = self.predictor.context() if self.args.minibatch_size > 0 else None
        with evaluation_mode(self.net):
            batches = self.labelled_batches(dataset.train_loader)
            while together := list(islice(batches, _BATCHES_TOGETHER)):
                self.measure(together, replay, averages)
        self.net.memory.record(averages)

    def labelled_batches(self, loader: Any) -> Iterator[Context]:
        """Features, labels and tasks of labelled samples, for `--memory_batches`."""
        for i, batch in enumerate(islice(loader, self.args.memory_batches or None)):
            if self.args.debug_mode and i > self.get_debug_iters():
                break
            images, labels, ids = batch[0], batch[1], task_ids_of(loader.dataset, batch)
            known = labels >= 0
            if not known.all():
                images, labels = images[known], labels[known]
                ids = None if ids is None else ids[known]
            if len(labels):
                labels, ids = labels.to(self.device), None if ids is None else ids.to(self.device)
                yield Context(self.net.features(images.to(self.device)), labels,
                              self.tasks_of(labels, ids))

    def measure(self, batches: list[Context], replay: Context | None,
                averages: RunningAverages) -> None:
        """Add the distributions of some batches, each a set with replay, to the averages."""
        parts, numbers = list(batches), np.arange(len(batches))
        sets = numbers.repeat([len(batch.labels) for batch in batches])
        if replay is not None:
            count = min(self.args.minibatch_size, len(replay.labels))
            rows = torch.cat([torch.randperm(len(replay.labels))[:count] for _ in batches])
            rows = rows.to(replay.labels.device)
            parts.append(Context(*(part.index_select(0, rows) for part in replay)))
            sets = np.concatenate((sets, numbers.repeat(count)))
        x, labels, tasks = (torch.cat(values) for values in zip(*parts, strict=True))
        if not self.HAS_GLOBAL:  # then no task sees another
            kept = torch.isin(tasks, averages.wanted)
            x, labels, tasks, sets = x[kept], labels[kept], tasks[kept], sets[kept.cpu().numpy()]
        blocks = Blocks.of_sets(sets)
        encoding = self.net.encode(x, labels, tasks, blocks).only(averages.wanted)
        z_global = self.net.latent.draw_global(
            encoding, Draws(self.args.n_global, self.args.n_task))
        averages.add(encoding.global_latents[0], self.net.latent.conditional(encoding, z_global)[0],
                     encoding.cells.tasks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Log-probabilities (B, C) of the head that answers."""
        probs = self.predictor.probabilities(x)
        return probs.clamp_min(torch.finfo(probs.dtype).tiny).log()

    def predict(self, x: torch.Tensor, draws: Draws | None = None,
                heads: torch.Tensor | None = None) -> Prediction:
        """All that the heads say about images (B, ...); `heads` (B,) is the oracle's choice."""
        return self.predictor(x, draws, heads)

    def explain(self, x: torch.Tensor) -> Any:
        """The harness's hook for asking: the answer, its draws, the head that gave it, novelty.

        Where all heads answer, a draw is what they say together, and no head is named.
        """
        said, all_answer = self.predict(x), self.predictor.mode in ("mixture", "naive")
        draws = said.logits.softmax(-1).mean(0) if all_answer else said.draws  # (S, B, C)
        return contract.Explanation(
            said.probs, draws if self.HAS_GLOBAL or self.HAS_TASK else None,
            said.head if self.HAS_TASK and not all_answer else None, said.distance)

    def tasks_of(self, labels: torch.Tensor,
                 task_ids: torch.Tensor | None = None) -> torch.Tensor:
        """Task of each sample of the stream, (B,); `task_ids` come with it where domains join."""
        return tasks_of(labels, self.current_task, self.class_ends, task_ids)

    def log_odds(self, tasks: torch.Tensor, replayed: int) -> torch.Tensor | None:
        """Prior log-odds (B, C) of the classes for rows of the stream; even ones for replay.

        A class competes for the stream's samples by the number of its own that are at hand as
        context: D_C^t has `--context_per_class` of each class of the task, the buffer has some
        of each class before. The fewer there are, the less the stream may teach that the current
        task is always right.
        """
        args = self.args
        if self.class_means is not None:  # as many samples as anyone likes can be made
            return self.class_means.log_odds(tasks, self.current_task)
        if not args.stream_prior:
            return None
        labels = self.context.labels
        assert labels is not None  # chosen as the task began
        if not self.buffer.is_empty():
            labels = torch.cat((labels, self.buffer.labels.to(labels)))
        counts = labels.bincount(minlength=self.N_CLASSES).clamp(1, args.context_per_class)
        odds = args.stream_prior * (counts / counts.max()).log().to(self.device)  # (C,)
        return torch.cat((odds.expand(len(tasks) - replayed, -1),
                          odds.new_zeros(replayed, len(odds))))

    def normalise(self, images: torch.Tensor) -> torch.Tensor:
        """Raw images as evaluation sees them; the MNIST family has nothing to normalise."""
        found: torch.Tensor = apply_transform(
            images, getattr(self, "normalization_transform", None))
        return found


def scaled_step(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """A step with all learning rates times `factor`; a scheduler never sees the difference."""
    rates = [group["lr"] for group in optimiser.param_groups]
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate * factor
    optimiser.step()
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate
