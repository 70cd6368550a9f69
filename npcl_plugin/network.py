"""`self.net` of the family: any feature backbone with the neural process around it.

Everything learnable and everything to be remembered is in here, so that moving, saving,
`eval()` and the optimiser cover it, in this harness and in upstream Mammoth alike.
"""
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributions import Independent

from npcl_plugin.contract import MammothBackbone
from npcl_plugin.distribution_memory import DistributionMemory
from npcl_plugin.latents import Encoding, Groups, LatentEncoder, draw
from npcl_plugin.layers.decoder import Decoder
from npcl_plugin.layers.encoders import DeterministicEncoder, SampleEncoder


@dataclass(frozen=True)
class Plan:
    """Sizes and parts of a neural process.

    Args:
        n_tasks: T, number of task heads (1 in anp, np and joint training).
        n_classes: C.
        size: O, the latent size |o| of the paper.
        depth: hidden layers of each perceptron.
        norm: LayerNorm after each hidden layer.
        heads: attention heads.
        has_global, has_task, attention: see `latents.LatentEncoder`.
        residual: add the backbone's own classifier to the logits (our extension).
    """

    n_tasks: int
    n_classes: int
    size: int = 32
    depth: int = 1
    norm: bool = False
    heads: int = 4
    has_global: bool = True
    has_task: bool = True
    attention: bool = True
    residual: bool = False


class Draws(NamedTuple):
    """How many Monte-Carlo samples: N of z^G, M of z^t for each."""

    globally: int
    of_task: int = 1


class TrainingPass(NamedTuple):
    """A set of targets decoded under their own heads, and the distributions of the ELBO."""

    logits: torch.Tensor  # (S, B, C)
    z: torch.Tensor  # (S, T', O) draws that the logits come from
    r: torch.Tensor  # (B, O)
    groups: Groups
    posterior_global: Independent | None  # batch ()
    prior_global: Independent | None  # batch ()
    posterior_task: Independent | None  # batch (N, T')
    prior_task: Independent | None  # batch (N, T')


def feature_size(backbone: nn.Module) -> int:
    """F: what the backbone's classifier takes (the MNIST MLP of upstream has no feature_dim)."""
    classifier = getattr(backbone, "classifier", None)
    size = getattr(classifier, "in_features", None) or getattr(backbone, "feature_dim", None)
    if size is None:
        raise ValueError(f"Expected the backbone to have a linear `classifier` or a "
                         f"`feature_dim`, but {type(backbone).__name__} has neither; choose "
                         f"another --backbone.")
    return int(size)


class NPNetwork(MammothBackbone):
    """A backbone and, once `configure` was called, a neural process on its features.

    Args:
        backbone: any network that answers `returnt="features"`.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.n_features = feature_size(backbone)
        self.plan: Plan | None = None

    def configure(self, plan: Plan) -> None:
        """Build the neural process."""
        self.plan = plan
        shape = (self.n_features, plan.n_classes, plan.size, plan.depth, plan.norm)
        self.latent = LatentEncoder(
            SampleEncoder(*shape), plan.n_tasks, plan.size, plan.heads, plan.depth, plan.norm,
            plan.has_global, plan.has_task, plan.attention)
        self.deterministic = DeterministicEncoder(SampleEncoder(*shape), self.n_features,
                                                  plan.size, plan.heads, plan.attention)
        self.decoder = Decoder(self.n_features, plan.size, plan.n_classes, plan.depth, plan.norm)
        self.memory = DistributionMemory(plan.n_tasks, plan.size)
        self.register_buffer("n_heads", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor, returnt: str = "out") -> Any:
        """What the wrapped backbone answers; the neural process is used by its parts."""
        return self.backbone(x, returnt=returnt)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Images -> (B, F)."""
        return self.backbone(x, returnt="features")

    def process_parameters(self) -> list[nn.Parameter]:
        """The parameters that the paper's gradient cap is about: all but the backbone's."""
        return [p for part in (self.latent, self.deterministic, self.decoder)
                for p in part.parameters()]

    def draw_global(self, encoding: Encoding, draws: Draws,
                    generator: torch.Generator | None = None) -> torch.Tensor | None:
        """z^G (N, O), (S, O) where it is the only latent; None where it does not exist."""
        if encoding.globally is None:
            return None
        count = draws.globally * (1 if self.plan.has_task else draws.of_task)
        return draw(encoding.globally, count, generator)

    def sample_latents(self, encoding: Encoding, draws: Draws,
                       generator: torch.Generator | None = None) \
            -> tuple[Independent | None, torch.Tensor]:
        """Ancestral sampling from a set: q(z^t | z^G), batch (N, T'), and z (S, T', O)."""
        z_global = self.draw_global(encoding, draws, generator)
        of_tasks = self.latent.of_tasks(encoding, z_global)
        return of_tasks, self.draw_heads(z_global, of_tasks, draws, generator)

    def draw_heads(self, z_global: torch.Tensor | None, of_tasks: Independent | None,
                   draws: Draws, generator: torch.Generator | None = None) -> torch.Tensor:
        """z (S, T', O): M draws of each q(z^t | z^G); z^G itself where there are no tasks."""
        if of_tasks is None:
            return z_global.unsqueeze(1)  # (S, 1, O)
        count = draws.of_task if z_global is not None else draws.globally * draws.of_task
        return draw(of_tasks, count, generator).flatten(0, 1)

    def decode(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor,
               heads: torch.Tensor | None = None) -> torch.Tensor:
        """Logits under the given heads (S, B, C), or under every head (T', S, B, C)."""
        logits = self.decoder.every_head(x, r, z) if heads is None \
            else self.decoder(x, r, z, heads)
        return logits + self.backbone.classifier(x) if self.plan.residual else logits

    def training_pass(self, x: torch.Tensor, labels: torch.Tensor, tasks: torch.Tensor,
                      context: torch.Tensor, draws: Draws, from_context: bool = False,
                      misdirected: torch.Tensor | None = None) -> TrainingPass:
        """Encode targets and their context, sample, decode each target under its own head.

        Args:
            x: features of the targets (B, F).
            labels: (B,).
            tasks: (B,).
            context: (m,) rows of the targets that are the context, C within T; every task
                has one at least.
            draws: N and M.
            from_context: decode from q(z^t | z^G, C^t), as equation 5 has it, instead of
                q(z^t | z^G, T^t), as its derivation in appendix A.1 has it.
            misdirected: (T',) psi that get the context of each task (noisy-context ablation).
        """
        rows = self.latent.encoder(x, labels)  # (B, O)
        target = self.latent.encode_rows(rows, tasks)
        prior = self.latent.encode_rows(rows[context], tasks[context])
        z_global = self.draw_global(target, draws)
        of_tasks, prior_task = self.latent.of_both(target, prior, z_global, misdirected)
        z = self.draw_heads(z_global, prior_task if from_context else of_tasks, draws)
        summary = self.deterministic.summarise(x[context], labels[context])
        r = self.deterministic.attend(summary, x)
        heads = target.groups.group if self.plan.has_task else torch.zeros_like(labels)
        return TrainingPass(self.decode(x, r, z, heads), z, r, target.groups, target.globally,
                            prior.globally, of_tasks, prior_task)
