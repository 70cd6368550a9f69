"""`self.net` of the family: any feature backbone with the neural process around it.

Everything learnable and everything to be remembered is in here, so that moving, saving,
`eval()` and the optimiser cover it, in this harness and in upstream Mammoth alike.
"""
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from npcl_plugin.context import misdirect
from npcl_plugin.contract import MammothBackbone
from npcl_plugin.distribution_memory import DistributionMemory
from npcl_plugin.gaussians import Gaussian, draw
from npcl_plugin.latents import Cells, Encoding, LatentEncoder
from npcl_plugin.layers.decoder import Decoder
from npcl_plugin.layers.encoders import DeterministicEncoder, SampleEncoder


@dataclass(frozen=True)
class Plan:
    """Sizes and parts of a neural process.

    Args:
        n_tasks: T, number of task heads (1 in anp, np and joint training).
        n_classes: C.
        size: O, the latent size |o| of the paper.
        depth: hidden layers of each perceptron of the encoders.
        norm: LayerNorm after each hidden layer.
        heads: attention heads.
        has_global, has_task, attention: see `latents.LatentEncoder`.
        residual: add the backbone's own classifier to the logits (our extension).
        decoder_depth: hidden layers of the decoder, `depth` by default.
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
    decoder_depth: int | None = None


class Draws(NamedTuple):
    """How many Monte-Carlo samples: N of z^G, M of z^t for each."""

    globally: int
    of_task: int = 1


class TrainingPass(NamedTuple):
    """Targets decoded under their own heads, and the distributions of the ELBO.

    Stream and replay are G = 2 sets (or one) with K cells, one for each task of each set.
    """

    logits: torch.Tensor  # (S, B, C)
    z: torch.Tensor  # (S, K, O) draws that the logits come from
    r: torch.Tensor  # (B, O)
    cells: Cells
    posterior_global: Gaussian | None  # batch (G,)
    prior_global: Gaussian | None  # batch (G,)
    posterior_task: Gaussian | None  # batch (N, K)
    prior_task: Gaussian | None  # batch (N, K)


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
        self.process_parameters: list[nn.Parameter] = []

    def configure(self, plan: Plan) -> None:
        """Build the neural process."""
        self.plan = plan
        shape = (self.n_features, plan.n_classes, plan.size, plan.depth, plan.norm)
        self.latent = LatentEncoder(
            SampleEncoder(*shape), plan.n_tasks, plan.size, plan.heads, plan.depth, plan.norm,
            plan.has_global, plan.has_task, plan.attention)
        self.deterministic = DeterministicEncoder(SampleEncoder(*shape), self.n_features,
                                                  plan.size, plan.heads, plan.attention)
        self.decoder = Decoder(self.n_features, plan.size, plan.n_classes, plan.depth
                               if plan.decoder_depth is None else plan.decoder_depth, plan.norm)
        self.memory = DistributionMemory(plan.n_tasks, plan.size)
        self.register_buffer("n_heads", torch.zeros((), dtype=torch.long))
        # What the paper's gradient cap is about: all but the backbone's.
        self.process_parameters = [p for part in (self.latent, self.deterministic, self.decoder)
                                   for p in part.parameters()]

    def forward(self, x: torch.Tensor, returnt: str = "out") -> Any:
        """What the wrapped backbone answers; the neural process is used by its parts."""
        return self.backbone(x, returnt=returnt)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Images -> (B, F)."""
        return self.backbone(x, returnt="features")

    def draw_global(self, source: Gaussian | None, draws: Draws,
                    generator: torch.Generator | None = None) -> torch.Tensor | None:
        """N draws of z^G, S where it is the only latent; None where it does not exist."""
        if source is None:
            return None
        count = draws.globally * (1 if self.plan.has_task else draws.of_task)
        return draw(source, count, generator)

    def sample_latents(self, encoding: Encoding, draws: Draws,
                       generator: torch.Generator | None = None) \
            -> tuple[Gaussian | None, torch.Tensor]:
        """Ancestral sampling from a set: q(z^t | z^G), batch (N, T'), and z (S, T', O)."""
        z_global = self.draw_global(encoding.globally, draws, generator)  # (N, O)
        of_tasks = self.latent.of_tasks(encoding, z_global)
        if of_tasks is None:
            return None, z_global.unsqueeze(1)
        return of_tasks, self.draw_heads(of_tasks, draws, generator)

    def draw_heads(self, of_tasks: Gaussian, draws: Draws,
                   generator: torch.Generator | None = None) -> torch.Tensor:
        """z (S, K, O): M draws of each q(z^t | z^G), S of q(z^t) where there is no z^G."""
        count = draws.of_task if self.plan.has_global else draws.globally * draws.of_task
        return draw(of_tasks, count, generator).flatten(0, 1)

    def decode(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor,
               heads: torch.Tensor | None = None) -> torch.Tensor:
        """Logits under the given heads (S, B, C), or under every head (T', S, B, C)."""
        logits = self.decoder.every_head(x, r, z) if heads is None \
            else self.decoder(x, r, z, heads)
        return logits + self.backbone.classifier(x) if self.plan.residual else logits

    def training_pass(self, x: torch.Tensor, labels: torch.Tensor, tasks: torch.Tensor,
                      context: torch.Tensor, draws: Draws, sets: torch.Tensor | None = None,
                      from_context: bool = False, n_seen: int = 0) -> TrainingPass:
        """Encode targets and their context, sample, decode each target under its own head.

        Args:
            x: features of the targets (B, F).
            labels: (B,).
            tasks: (B,).
            context: (m,) rows of the targets that are the context, C within T; every task of
                every set has one at least.
            draws: N and M.
            sets: (B,) 0 or 1, the set that a target belongs to; one set by default.
            from_context: decode from q(z^t | z^G, C^t), as equation 5 has it, instead of
                q(z^t | z^G, T^t), as its derivation in appendix A.1 has it.
            n_seen: above 1, misdirect the context of each task to another one's psi (ablation).
        """
        n_sets = 1 if sets is None else int(sets.max()) + 1
        several = sets if n_sets > 1 else None
        sets = torch.zeros_like(labels) if sets is None else sets
        encoding = self.latent.encode_sets(x, labels, tasks, sets, context, n_sets)
        cells = encoding.cells
        posterior, prior = encoding.globally or (None, None)
        z_global = self.draw_global(posterior, draws)  # (N, G, O)
        wrong = misdirect(cells.tasks, n_seen) if n_seen > 1 else None
        of_tasks, prior_task = self.latent.of_cells(encoding, z_global, wrong)
        z = z_global if of_tasks is None else self.draw_heads(
            prior_task if from_context else of_tasks, draws)
        there = None if several is None else sets[context]
        summary = self.deterministic.summarise(x[context], labels[context], there, n_sets)
        r = self.deterministic.attend(summary, x, several, there)
        heads = cells.cell if self.plan.has_task else sets
        return TrainingPass(self.decode(x, r, z, heads), z, r, cells, posterior, prior,
                            of_tasks, prior_task)
