"""Every name in summary.json in one sentence; printed and shown beside the numbers."""
from npcl_plugin.uncertainty.measures import MEASURES, SCORES

DEFINITIONS = {
    **{measure.name: measure.definition for measure in MEASURES
       if measure.section != "novelty"},
    **{score: f"Score: {meaning}." for score, (_, meaning) in SCORES.items()},
    "confidence": "Mean probability of the predicted class.",
    "entropy": "Mean entropy of the predicted probabilities, in nats; with the heads: mean over "
               "draws of the entropy of a head's softmax (equation 9).",
    "reliability": "Accuracy against confidence of the predicted class, bin by bin.",
    "rejection": "Accuracy of the rest after leaving out the least confident samples; best: had "
                 "the wrong ones been left out first.",
    "pearson": "Correlation over tasks of the backward transfers of accuracy and of entropy.",
    "spearman": "The same for their ranks.",
    "confusion": "Samples of a true task (row) answered by a head (column).",
    "lowest_entropy_head": "For each task the head whose mean entropy on it is least.",
    "true_head_lowest": "Share of tasks for which that is the task's own head.",
    "auroc": "Probability that a novel sample has a higher score than a known one.",
    "fpr95": "Share of novel samples below the score that 95 % of the known ones stay below.",
    "energy": "Score: -logsumexp of the outputs; NP family: of the answering head's logits, mean "
              "over draws. Scales differ between methods.",
    "piw": "Prediction interval width: from the 2.5th to the 97.5th percentile over draws of the "
           "true class's probability.",
    "t_test": "Paired t-test over draws between the probabilities of the two most predicted "
              "classes; rejected: p < 0.05, the two differ.",
    "accuracy_rejected": "Accuracy of the majority vote where the test rejects equality.",
    "accuracy_not_rejected": "Accuracy of the majority vote where it does not.",
    "qq": "Differences in probability between the two most predicted classes, draw by draw, "
          "against normal quantiles.",
    "latent_norms": "L1 norms of means and standard deviations of q(z | buffer), after each "
                    "epoch; task latents averaged over draws of z^G.",
    "units": "log10 of each latent unit's KL of q(z | buffer) from q(z | C), C an evenly spaced "
             "share of every task's rows; largest first.",
    "active_units": "Latent units whose KL is above 0.01 nats.",
    "drift": "Distance of q(z^t | buffer) from what was stored when task t was new: KL (nats) and "
             "2-Wasserstein; a task's first entry is the distance at once, by batches against "
             "buffer. Global: from what was stored one task earlier.",
    "own_share_by_chance": "Share of the context that is of that task.",
    "self_attention": "Attention of context rows (down) to context rows (across), sorted by mean "
                      "feature value, mean of each block.",
    "parameters": "Trainable parameters.",
    "storage": "Numbers stored besides images and labels; NP family: 2 |o| a task, 2 |o| globally, "
               "one task label a buffer row, with --stream_context a class's mean, count and task, "
               "with --stream_shrinkage the scatter, with --input_memory two of each number of an "
               "input and a count, per class or task, with --stream_recall the features of a "
               "context; DER: a logit a class and row.",
    "seconds": "CPU seconds for that many images, the context's encoding included.",
    "context": "With an evenly drawn part of the buffer as context at test time.",
    "draws": "With N draws of z^G and M of z^t for each.",
}
