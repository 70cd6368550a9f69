"""Asking a trained model: images in, labels and how sure they are out.

    from mammoth import load_model
    model = load_model("checkpoints/npcl_seq-digits_..._last.pt")
    answer = model.ask("photos/")
    print(answer)
    print(answer.sure(at_least=0.9))

Works for every method that gives probabilities. A method says more than that (draws, heads) by a
method `explain`, see `asking.explanation`.
"""
from asking.answer import Answer
from asking.explanation import Explanation
from asking.learner import Learner, load_model

__all__ = ["Answer", "Explanation", "Learner", "load_model"]
