"""Training steps of the neural process as recorded graphs: the same numbers, fewer milliseconds.

A step is some seven hundred small operations, and much of its time is Python and the bookkeeping of
autograd. Recorded once, forwards and backwards, as a graph of torch's operations and ours, it runs
in torch's static runtime without either; no compiler is needed. A graph holds for other
numbers of tasks too, as far as the conditions go that its recording met. It is used only if its
first result is that of the plain step to the last bit, so that nothing depends on when it was
recorded.
"""
import copy
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.func import functional_call

from npcl_plugin.gradients import norm_of
from npcl_plugin.layout import Layout
from npcl_plugin.logits import SMALLEST_SUM
from npcl_plugin.network import NPNetwork
from npcl_plugin.plan import Draws
from npcl_plugin.priors import Samples, layout_of
from npcl_plugin.terms import Forwards, Loss, Step, Targets, Term, weighted_sum

# Recording takes some seconds, which are saved within some thousand steps.
STEPS_WORTH_IT = 4000
# Steps of a kind before it is recorded: a rare one is not worth it.
STEPS_BEFORE = 100
MOST_GRAPHS = 8


class Inputs(NamedTuple):
    """What a graph is run on."""

    targets: Targets
    layout: Layout
    draws: Draws
    present: list[tuple[Term, float]]  # with their weights

    def tensors(self) -> list[torch.Tensor]:
        """All of them, in the same order every time."""
        return list(tensors_in((*self.targets, self.layout)))

    def holding(self, tensors: list[Any]) -> "Inputs":
        """The same with other tensors."""
        replaced = {id(old): new for old, new in zip(self.tensors(), tensors, strict=True)}
        targets, layout = copy.deepcopy((self.targets, self.layout), replaced)
        return Inputs(targets, layout, self.draws, self.present)

    def kind(self) -> tuple[Any, ...]:
        """Steps of different kinds never share a graph."""
        x = self.targets.x
        return (x.shape, x.stride(), x.dtype, self.targets.replayed, self.layout.cells.n_sets,
                self.draws, tuple(each.name for each, _ in self.present))


def tensors_in(thing: Any) -> Iterator[torch.Tensor]:
    """Those in lists, tuples and attributes."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from tensors_in(part)
    elif hasattr(thing, "__dict__"):
        yield from tensors_in(list(vars(thing).values()))


class Graph(NamedTuple):
    """A recorded step."""

    run: Any  # parameters, buffers, inputs -> a list of tensors
    shapes: Any  # torch's
    condition: Any  # of sizes and strides of the inputs
    wanted: list[int]  # which of the features and parameters have a gradient

    def fits(self, tensors: list[torch.Tensor]) -> bool:
        """Whether the graph is right for inputs of these shapes."""
        return bool(self.shapes.evaluate_guards_expression(self.condition, tensors))


class Process(nn.Module):
    """The neural process and its loss as one function of tensors.

    Args:
        net: configured.
        args: of the model.
    """

    def __init__(self, net: NPNetwork, args: Namespace) -> None:
        super().__init__()
        self.latent, self.deterministic = net.latent, net.deterministic
        self.decoder, self.memory = net.decoder, net.memory
        self._net, self._args = (net,), args  # in a tuple it is no part of this
        self.plan = net.plan
        self.names = [name for name, _ in (*self.named_parameters(), *self.named_buffers())]
        self.n_parameters = len(list(self.parameters()))

    def forward(self, targets: Targets, layout: Layout, draws: Draws,
                present: list[Any]) -> list[torch.Tensor]:
        """Loss, its terms (n,), the least sum of the likelihood, mean logits if asked for."""
        args, (net,) = self._args, self._net
        out = net.training_pass(
            targets.x, targets.labels, targets.tasks, context=targets.context,
            draws=draws, sets=targets.sets,
            from_context=args.latents_from == "context", layout=layout)
        unchecked: list[torch.Tensor] = []
        step = Step(net, args, targets, out, 0, unchecked)
        loss, values = weighted_sum(step, present)
        least = unchecked[0] if unchecked else torch.ones_like(loss)
        return [loss, values, least, *([step.mean_logits] if args.dark_replay else [])]

    def differentiate(self, state: list[torch.Tensor],
                      inputs: Inputs) -> tuple[list[torch.Tensor], list[Any]]:
        """What `forward` says, and the gradients of features and parameters.

        The norm of the latter comes fourth.

        Args:
            state: parameters, then buffers.
        """
        state = [tensor.detach() for tensor in state]
        leaves = [inputs.targets.x.detach(), *state[:self.n_parameters]]
        with torch.enable_grad():
            for leaf in leaves:
                leaf.requires_grad_()
            found = functional_call(
                self, dict(zip(self.names, state, strict=True)),
                (inputs.targets._replace(x=leaves[0]), *inputs[1:]))
            gradients = torch.autograd.grad(found[0], leaves, allow_unused=True)
        return [*found[:3], norm_of(gradients[1:], self.plan.compiled), *found[3:]], list(gradients)


class StepGraphs:
    """Steps by recorded graphs, where they are worth it and right.

    Args:
        net: configured.
        args: of the model.
    """

    def __init__(self, net: NPNetwork, args: Namespace) -> None:
        self.net, self.args = net, args
        self.process = Process(net, args)
        self.possible = recordable(net, args)
        self.worth_it, self.at_once = False, args.step_graphs == "1"
        self.graphs: dict[Any, list[Graph]] = {}  # by kind
        self.known: dict[Any, Graph | None] = {}  # by kind and shapes
        self.parameters: list[nn.Parameter] = []
        self.of_backbone: list[nn.Parameter] = []
        self.state: list[torch.Tensor] = []
        self.seen: dict[Any, int] = {}

    def begin_task(self, steps_ahead: int) -> None:
        """So many steps are ahead for which a graph that is recorded now could serve."""
        # Listed once, as that takes long; a network is not moved within a task.
        self.parameters = list(self.process.parameters())
        self.of_backbone = list(self.net.backbone.parameters())
        self.state = [*self.parameters, *self.process.buffers()]
        self.worth_it = self.possible and self.args.step_graphs != "0" and (
            self.at_once or steps_ahead >= STEPS_WORTH_IT)

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which record anew: torch cannot copy its graphs."""
        return {**vars(self), "graphs": {}, "known": {}}

    def state_dict(self) -> dict[str, Any]:
        """There is none: a graph computes what the plain step does."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is nothing to load."""

    def __call__(self, targets: Targets, objective: Loss,
                 current_task: int) -> Forwards | None:
        """A step with gradients known in advance; None where it is to be done the plain way."""
        if not (self.worth_it or any(self.graphs.values())) or targets.x.device.type != "cpu" \
                or not all(map(is_trained_alone, self.parameters)):
            return None
        layout = layout_of(self.net.latent, Samples(
            targets.x, targets.labels, targets.tasks, targets.sets, targets.context))
        layout.complete(self.net.plan.has_task, self.net.decoder.additive)
        before: Any = SimpleNamespace(cells=layout.cells)  # all that is known of a pass
        step = Step(self.net, self.args, targets, before, current_task)
        present = objective.present(step)
        draws = Draws(self.args.n_global, self.args.n_task)
        inputs = Inputs(targets._replace(x=targets.x.detach()), layout, draws, present)
        tensors = inputs.tensors()
        graph = self._graph(inputs, tensors)
        if graph is None:
            return None
        random = torch.get_rng_state()
        found, gradients = self._run(graph, tensors)
        if not float(found[2]) > SMALLEST_SUM:
            torch.set_rng_state(random)
            return None
        values = dict(zip([each.name for each, _ in present], found[1].tolist(), strict=True))

        def backward() -> torch.Tensor:
            for parameter, gradient in zip(self.parameters, gradients[1:], strict=True):
                parameter.grad = gradient
            if targets.x.requires_grad:
                for parameter in self.of_backbone:
                    parameter.grad = None
                targets.x.backward(gradients[0])
            return found[3]

        return Forwards({"loss": found[0].item(), **values}, backward,
                        found[4] if self.args.dark_replay else None)

    def _run(self, graph: Graph, tensors: list[torch.Tensor]) \
            -> tuple[list[torch.Tensor], list[Any]]:
        with torch.no_grad():
            out = graph.run(*self.state, *tensors)
        n_found = 5 if self.args.dark_replay else 4
        gradients: list[Any] = [None] * (1 + self.process.n_parameters)
        for place, gradient in zip(graph.wanted, out[n_found:], strict=True):
            gradients[place] = gradient
        return out[:n_found], gradients

    def _graph(self, inputs: Inputs, tensors: list[torch.Tensor]) -> Graph | None:
        """The one for these inputs, recorded now if it is time."""
        kind, shapes = (*inputs.kind(), len(tensors)), tuple(tensor.shape for tensor in tensors)
        if (kind, shapes) in self.known:
            return self.known[kind, shapes]
        self.seen[kind] = self.seen.get(kind, 0) + 1
        graphs = self.graphs.setdefault(kind, [])
        graph = next((each for each in graphs if each.fits(tensors)), None)
        no_more = not self.worth_it or sum(map(len, self.graphs.values())) >= MOST_GRAPHS
        if graph is None and not no_more and (self.at_once or self.seen[kind] > STEPS_BEFORE):
            graph = self._record(inputs, tensors)
            graphs += [graph] if graph is not None else []
        if graph is not None or no_more:
            self.known[kind, shapes] = graph
        return graph

    def _record(self, inputs: Inputs, tensors: list[torch.Tensor]) -> Graph | None:
        """A graph that was tried; None, and never again, where torch cannot make it."""
        random = torch.get_rng_state()
        try:
            graph = record(self.process, self.state, inputs)
            found, gradients = self._run(graph, tensors)
            torch.set_rng_state(random)
            expected, plain = self.process.differentiate(self.state, inputs)
            if not all(map(identical, (*found, *gradients), (*expected, *plain))):
                raise ValueError("its numbers are not those of the plain step")
        except Exception as error:  # torch's tracer has many ways to fail, and no step needs it
            self.worth_it = self.possible = False
            self.graphs.clear()
            self.known.clear()
            said = str(error).strip().partition("\n")[0] or type(error).__name__
            print(f"Training goes on without recorded steps, which are faster (--step_graphs 0 "
                  f"never tries): {said}.", file=sys.stderr)
            return None
        finally:
            torch.set_rng_state(random)
        return graph


def is_trained_alone(parameter: nn.Parameter) -> bool:
    """Whether a parameter has a gradient, which nobody else asks to see."""
    return parameter.requires_grad and not parameter._backward_hooks \
        and not getattr(parameter, "_post_accumulate_grad_hooks", None)


def identical(first: torch.Tensor | None, second: torch.Tensor | None) -> bool:
    """Whether two tensors have the same bits, or none of them is there."""
    if first is None or second is None:
        return first is second
    return torch.equal(first, second)


def recordable(net: NPNetwork, args: Namespace) -> bool:
    """Whether a step is a function of tensors alone."""
    plan = net.plan
    return plan.global_draws == "set" and plan.n_anchors == 1 and not args.noisy_context \
        and not plan.residual_decoder


def record(process: Process, state: list[torch.Tensor], inputs: Inputs) -> Graph:
    """Forwards and backwards as one graph; only numbers of cells and slots may change later."""
    # They import torch's compiler, which takes as long as torch itself.
    from torch._dispatch.python import enable_python_dispatcher
    from torch._dynamo.source import LocalSource
    from torch._subclasses.fake_tensor import FakeTensorMode, disable_fake_tensor_cache
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        ShapeEnv,
        StatelessSymbolicContext,
    )

    shapes = ShapeEnv(duck_shape=False)  # sizes that happen to be equal are not the same
    mode = FakeTensorMode(shape_env=shapes)
    changing = {id(tensor) for tensor in tensors_in(
        (inputs.targets.context, inputs.layout))} if process.plan.has_task else set()
    wanted: list[int] = []

    def stand_in(tensor: torch.Tensor) -> Any:
        kind = DimDynamic.DYNAMIC if id(tensor) in changing else DimDynamic.STATIC
        return mode.from_tensor(tensor.detach(), symbolic_context=StatelessSymbolicContext(
            [kind] * tensor.dim()))

    def everything(*tensors: torch.Tensor) -> list[torch.Tensor]:
        found, gradients = process.differentiate(
            list(tensors[:len(state)]), inputs.holding(list(tensors[len(state):])))
        wanted[:] = [i for i, gradient in enumerate(gradients) if gradient is not None]
        return [*found, *(gradients[i] for i in wanted)]

    stand_ins = [stand_in(tensor) for tensor in inputs.tensors()]
    state_stand_ins = [stand_in(tensor) for tensor in state]
    # Each operation is met once: keeping what torch found out about it takes half of the time.
    with mode, disable_fake_tensor_cache(mode), enable_python_dispatcher():
        traced = make_fx(everything)(*state_stand_ins, *stand_ins)
    # As `produce_guards_expression`, which forgets the brackets around alternatives.
    conditions = shapes.produce_guards(
        stand_ins, [LocalSource(f"t{i}") for i in range(len(stand_ins))], ignore_static=False)
    condition = " and ".join(f"({each})" for each in conditions) or "True"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = torch.jit.freeze(torch.jit.script(scriptable(traced)).eval())
    run = torch._C._jit_to_static_module(graph._c)
    return Graph(run, shapes, compile(condition, "condition", "eval"), wanted)


def scriptable(traced: Any) -> Any:
    """A traced graph as TorchScript takes it, without what costs time and changes nothing."""
    from torch._functorch.compile_utils import strip_overloads

    aten = torch.ops.aten
    for node in list(traced.graph.nodes):
        before: Any = node.args[0] if node.args else None
        if node.target in (aten.detach.default, aten.lift_fresh_copy.default):
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
        elif node.target == aten.t.default == before.target:
            node.replace_all_uses_with(before.args[0])
        elif node.target == aten.view.default == before.target:
            node.args = (before.args[0], *node.args[1:])
        elif node.target == aten.mul.Tensor and node.args[1:] == (1,) \
                and node.meta["val"].dtype == before.meta["val"].dtype:
            node.replace_all_uses_with(before)
        elif node.target == aten.sym_size.int:
            node.target = aten.size.int
        elif node.target == aten._to_copy.default:
            node.target, node.args = aten.to.dtype, (node.args[0], node.kwargs["dtype"])
            node.kwargs = {}
        elif node.target == aten.native_layer_norm_backward.default:
            complete_outputs(node)
        elif node.target == aten.index_add.default and len(node.args[0].users) == 1 \
                and node.args[0].target == aten.new_zeros.default:
            node.target = aten.index_add_.default
        node.kwargs = {name: value.type if isinstance(value, torch.device) else value
                       for name, value in node.kwargs.items()}
    traced.graph.eliminate_dead_code()
    strip_overloads(traced)
    traced.recompile()
    return traced


def complete_outputs(node: Any) -> None:
    """Let a normalisation without weights compute their gradients too.

    Torch's static runtime fails at results that do not exist.
    """
    *others, weight, bias, wanted = node.args
    if not all(wanted):
        module, (size,) = node.graph.owning_module, others[2]
        module.register_buffer("ones", torch.ones(size))
        module.register_buffer("zeros", torch.zeros(size))
        with node.graph.inserting_before(node):
            weight = weight or node.graph.get_attr("ones")
            bias = bias or node.graph.get_attr("zeros")
        node.args = (*others, weight, bias, [True] * 3)
