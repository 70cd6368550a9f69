"""Every name in summary.json in one sentence; printed and shown beside the numbers."""

DEFINITIONS = {
    "accuracy": "Share of right answers on the saved subset of the test sets.",
    "confidence": "Mean probability of the predicted class.",
    "entropy": "Mean entropy of the predicted probabilities, in nats; with the heads: mean over "
               "draws of the entropy of a head's softmax (equation 9).",
    "ece": "Expected calibration error: 15 bins of equal width over the predicted class's "
           "probability, mean of |accuracy - confidence| weighted by samples (torchmetrics).",
    "ace_classwise": "Adaptive calibration error of Nixon et al. (2019): for every class 15 bins "
                     "of equal mass over its probability, unweighted mean over classes and bins of "
                     "|frequency - probability|.",
    "ace_top_equal_mass": "As ECE, but with 15 bins of equal mass; what some libraries call ACE.",
    "nll": "Mean negative logarithm of the true class's probability, in nats.",
    "brier": "Mean squared distance of the probabilities to the one-hot label, summed over "
             "classes (0 to 2).",
    "rejection_area": "Accuracy of the samples kept, averaged over all numbers of samples kept, "
                      "least confident left out first.",
    "reliability": "Accuracy against confidence of the predicted class, bin by bin.",
    "rejection": "Accuracy of the rest after leaving out the least confident samples; best: had "
                 "the wrong ones been left out first.",
    "bwt_accuracy": "Backward transfer: accuracy at the end minus accuracy when learned, mean over "
                    "all tasks but the last.",
    "bwt_entropy": "Backward transfer of uncertainty: mean entropy at the end minus when learned, "
                   "mean over all tasks but the last.",
    "pearson": "Correlation over tasks of the backward transfers of accuracy and of entropy.",
    "spearman": "The same for their ranks.",
    "head_inference_accuracy": "Share of samples answered by the head of their own task.",
    "confusion": "Samples of a true task (row) answered by a head (column).",
    "lowest_entropy_head": "For each task the head whose mean entropy on it is least.",
    "true_head_lowest": "Share of tasks for which that is the task's own head.",
    "auroc": "Probability that a novel sample has a higher score than a known one.",
    "fpr95": "Share of novel samples below the score that 95 % of the known ones stay below.",
    "max_softmax": "Score: 1 - largest probability.",
    "energy": "Score: -logsumexp of the outputs; NP family: of the answering head's logits, mean "
              "over draws. Scales differ between methods.",
    "variance_softmax": "Score: variance over draws of a class's probability, mean over classes, "
                        "under the answering head.",
    "variance_entropy": "Score: variance over draws of the softmax's entropy, under the answering "
                        "head.",
    "piw": "Prediction interval width: from the 2.5th to the 97.5th percentile over draws of the "
           "true class's probability.",
    "piw_correct": "Mean PIW of samples whose majority vote over draws is right; in the headline "
                   "under the true task's head, as in the paper.",
    "piw_incorrect": "Mean PIW of samples whose majority vote over draws is wrong; likewise.",
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
    "active_units_global": "Units of the global latent whose KL is above 0.01 nats.",
    "drift": "Distance of q(z^t | buffer) from what was stored when task t was new: KL (nats) and "
             "2-Wasserstein; a task's first entry is the distance at once, by batches against "
             "buffer. Global: from what was stored one task earlier.",
    "own_task_share": "Share of a sample's attention that falls on context of its own task.",
    "own_share_by_chance": "Share of the context that is of that task.",
    "self_attention": "Attention of context rows (down) to context rows (across), sorted by mean "
                      "feature value, mean of each block.",
    "parameters": "Trainable parameters.",
    "storage": "Numbers stored besides images and labels; NP family: 2 |o| a task, 2 |o| globally, "
               "one task label a buffer row; DER: a logit a class and row.",
    "seconds": "CPU seconds for that many images, the context's encoding included.",
    "context": "With an evenly drawn part of the buffer as context at test time.",
    "draws": "With N draws of z^G and M of z^t for each.",
}
