"""`self.net` of the family: any feature backbone with the neural process around it.

Everything learnable and everything to be remembered is in here, so that moving, saving,
`eval()` and the optimiser cover it, in this harness and in upstream Mammoth alike.
"""
from typing import Any, NamedTuple

import torch
from torch import nn

from npcl_plugin.contract import MammothBackbone
from npcl_plugin.distribution_memory import DistributionMemory, GlobalHistory
from npcl_plugin.folding import FoldedFeatures
from npcl_plugin.gaussians import Gaussian
from npcl_plugin.latents import Encoding, LatentEncoder
from npcl_plugin.layers.decoder import DeepDecoder, LinearDecoder
from npcl_plugin.layers.encoders import AttentivePath, MeanPath, SampleEncoder, Summary
from npcl_plugin.layers.feedforward import FeedForwardPath
from npcl_plugin.layers.linear import Compilable
from npcl_plugin.layout import Blocks, Cells, Layout
from npcl_plugin.logits import AdditiveLogits, FullLogits, HiddenLogits
from npcl_plugin.plan import Draws, Plan
from npcl_plugin.priors import Samples, with_own_draws, with_shared_draws
from npcl_plugin.slow_weights import SlowWeights


class TrainingPass(NamedTuple):
    """Targets decoded under their own heads, and the distributions of the ELBO.

    Stream and replay are G = 2 sets (or one) with K cells, one for each task of each set. The
    distributions of a level that does not exist have no units.
    """

    logits: AdditiveLogits | FullLogits | HiddenLogits  # of S draws, B targets, C classes
    z: torch.Tensor  # (S, K, O) draws that the logits come from
    r: torch.Tensor  # (B, O)
    summary: Summary  # of the context that r comes from
    cells: Cells
    global_posterior: Gaussian  # batch (G,)
    global_prior: Gaussian  # batch (G,)
    task_posterior: Gaussian  # batch (N, K); of the last draw alone where tasks draw their own
    task_prior: Gaussian  # likewise


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

    plan: Plan
    n_heads: torch.Tensor  # () task heads that take part in inference

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone: Any = backbone
        self.folded = FoldedFeatures()
        self.n_features = feature_size(backbone)
        self.process_parameters: list[nn.Parameter] = []
        self.slow: SlowWeights | None = None

    def configure(self, plan: Plan) -> None:
        """Build the neural process."""
        self.plan = plan
        size, has_latent = plan.latent_size, plan.has_global or plan.has_task
        self.latent = LatentEncoder(self._sample_encoder(), plan)
        encoder = self._sample_encoder()
        self.deterministic = self._deterministic_path(encoder)
        sizes = (self.n_features, size, plan.n_classes)
        self.decoder: LinearDecoder = DeepDecoder(
            *sizes, width=self.n_features if plan.decoder_width == "features" else size,
            depth=plan.decoder_depth, norm=plan.norm, has_latent=has_latent,
            draws_per_target=plan.draws_per_target, compiled=plan.compiled) \
            if plan.decoder_depth else LinearDecoder(*sizes, has_latent=has_latent)
        self.memory = GlobalHistory(plan.n_tasks, size, plan.n_anchors) if plan.n_anchors > 1 \
            else DistributionMemory(plan.n_tasks, size)
        self.infer = with_own_draws if plan.global_draws == "task" else with_shared_draws
        self.register_buffer("n_heads", torch.zeros((), dtype=torch.long))
        if not plan.residual_decoder:  # nobody asks the backbone's own classifier
            for parameter in getattr(self.backbone, "classifier", nn.Identity()).parameters():
                parameter.requires_grad_(False)
        for layer in self.modules():
            if isinstance(layer, Compilable):
                layer.compiled = plan.compiled
        # What the paper's gradient cap is about: all but the backbone's.
        self.process_parameters = [p for part in (self.latent, self.deterministic, self.decoder)
                                   for p in part.parameters()]

    def _sample_encoder(self) -> SampleEncoder:
        plan = self.plan
        return SampleEncoder(self.n_features, plan.n_classes, plan.latent_size, depth=plan.depth,
                             norm=plan.norm, ends_linear=plan.ends_linear)

    def _deterministic_path(self, encoder: SampleEncoder) \
            -> AttentivePath | FeedForwardPath | MeanPath:
        plan = self.plan
        if not plan.attention:
            return MeanPath(encoder)
        sizes = (self.n_features, plan.latent_size, plan.n_attention_heads)
        return AttentivePath(encoder, *sizes, plan.attends_compiled) if plan.encoders == "paper" \
            else FeedForwardPath(encoder, *sizes, norm=plan.norm)

    def average(self, decay: float) -> None:
        """Keep slow weights from now on; the distribution memory is the same for both."""
        self.slow = SlowWeights(self, decay, shared="memory")

    @property
    def answering(self) -> "NPNetwork":
        """The network that answers: the slow one if it is kept."""
        if self.slow is None:
            return self
        assert isinstance(self.slow.copy, NPNetwork)
        return self.slow.copy

    def forward(self, x: torch.Tensor, returnt: str = "out") -> Any:
        """What the wrapped backbone answers; the neural process is used by its parts."""
        return self.backbone(x, returnt=returnt)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Images -> (B, F)."""
        return self.folded(self.backbone, x)

    def encode(self, x: torch.Tensor, labels: torch.Tensor, tasks: torch.Tensor,
               blocks: Blocks | None = None) -> Encoding:
        """What sets of samples say of the latents: one block in inference, several in training."""
        encoding: Encoding = self.latent(x, labels, tasks, blocks)
        return encoding

    def decode(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Logits under every head, (T', S, B, C)."""
        logits: torch.Tensor = self.decoder.every_head(x, r, z)
        return logits + self.backbone.classifier(x) if self.plan.residual_decoder else logits

    def additive_logits(self, x: torch.Tensor, r: torch.Tensor,
                        z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Parts (B, C) and (T', S, C) that add up to the logits of an additive decoder."""
        targets = self.decoder.of_targets(x, r)
        if self.plan.residual_decoder:
            targets = targets + self.backbone.classifier(x)
        return targets, self.decoder.from_z(z).transpose(0, 1)

    def training_pass(self, x: torch.Tensor, labels: torch.Tensor, tasks: torch.Tensor, *,
                      context: torch.Tensor, draws: Draws, sets: torch.Tensor | None = None,
                      from_context: bool = False, n_misdirected: int = 0,
                      layout: Layout | None = None) -> TrainingPass:
        """The generative model on a batch of targets, each decoded under its own head.

        Args:
            x: features of the targets (B, F).
            labels: (B,).
            tasks: (B,).
            context: (m,) rows of the targets that are the context, C within T; every task of
                every set has one at least, every set where tasks draw z^G of their own.
            draws: N and M.
            sets: (B,) 0 or 1, the set that a target belongs to; one set by default.
            from_context: decode from q(z^t | z^G, C^t), as equation 5 has it, instead of
                q(z^t | z^G, T^t), as its derivation in appendix A.1 has it.
            n_misdirected: above 1, the context of each task goes to another one's psi, of this
                many (ablation).
            layout: of targets and context, where it is known already.
        """
        sets = torch.zeros_like(labels) if sets is None else sets

        # 1. to 3. Encode targets and context; z^G ~ q(z^G | T), z^t ~ q(z^t | z^G, T^t).
        found = self.infer(self.latent, Samples(x, labels, tasks, sets, context, layout), draws,
                           from_context=from_context, n_misdirected=n_misdirected)

        # 4. r_*: what the context of its set says about each target.
        several = sets if found.cells.n_sets > 1 else None
        summary = self.deterministic.summarise(x.index_select(0, context), labels[context],
                                               None if several is None else several[context])
        r = self.deterministic.attend(summary, x, several)  # (B, O)

        # 5. p(y | x_*, r_*, z^t)
        logits = self.decoder(x, r, found.z, found.cells)
        if self.plan.residual_decoder:
            logits = logits.plus(self.backbone.classifier(x))
        return TrainingPass(logits, found.z, r, summary, found.cells, found.global_posterior,
                            found.global_prior, found.task_posterior, found.task_prior)
