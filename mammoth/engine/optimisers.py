"""torch's optimisers without torch's compiler.

The step of torch's optimisers and some of their other functions import `torch._dynamo` when they
are first called, only to keep the compiler away from themselves; that takes as long as importing
torch. Nothing here is compiled, so these classes have the functions inside those wrappers: the same
arithmetic, the same states.
"""
import inspect
from typing import Any, TypeVar

import torch
from torch import optim

_Kind = TypeVar("_Kind", bound=type[optim.Optimizer])
_WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def without_compiler(kind: _Kind) -> _Kind:
    """A class of optimisers like `kind` that does not import the compiler."""
    functions: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in _WRAPPED}
    plain_step = torch.no_grad()(inspect.unwrap(kind.step))

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss = plain_step(self, *args, **kwargs)
        for group in self.param_groups:
            if group.get("fused"):  # torch counts every write to a tensor but these
                torch.autograd.graph.increment_version(group["params"])
        return loss

    plain: Any = type(kind.__name__, (kind,), {**functions, "step": step,
                                               "__doc__": kind.__doc__, "__module__": __name__})
    return plain


SGD = without_compiler(optim.SGD)
Adam = without_compiler(optim.Adam)
AdamW = without_compiler(optim.AdamW)
