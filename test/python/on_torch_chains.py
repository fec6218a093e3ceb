# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of kernels that torch.compile's graphs make by one op: a program for the environment that has torch. `test_frameworks` runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from framework_cases import case, run

torch: Any = import_module("torch")
backend: Any = import_module("tilewright.torch.inductor.backend")
chains: Any = import_module("tilewright.torch.inductor.chains")
F = torch.nn.functional
UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}


def drawn(shapes: Sequence[tuple[int, ...]], dtype: Any) -> list[Any]:
    """Tensors whose products with one another have elements of at most about 1."""
    torch.manual_seed(0)
    return [((torch.rand(shape, dtype=torch.float64) - 0.5) * 0.7).to(dtype) for shape in shapes]


def in_chains(function: Callable[..., Any], graphs: list[Any]) -> Callable[..., Any]:
    """The function compiled by torch.compile up to the graph with chains, which then runs op by op."""
    from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]
    from torch._functorch.aot_autograd import make_boxed_func  # pyright: ignore[reportMissingImports]

    def compiler(graph_module: Any, _inputs: Any) -> Any:
        backend.rewrite(graph_module)
        chains.join(graph_module)
        graphs.append(graph_module)
        return make_boxed_func(graph_module.forward)

    with_ours = aot_autograd(fw_compiler=compiler, decompositions=backend.decompositions())
    return torch.compile(function, backend=with_ours, fullgraph=True)


@case
def calls_that_follow_one_another_become_one() -> None:
    def both(x: Any, w: Any, v: Any) -> Any:
        y = F.relu(F.linear(x, w))
        return y, F.linear(y, v), y[:, 1:3].t()

    def around(x: Any, w: Any, v: Any) -> Any:
        # The second waits for what torch makes of the first, the third does not.
        y = F.linear(x, w)
        return F.linear(torch.sort(y).values, v), F.linear(x, w * 2), y

    def heads(x: Any, w: Any, v: Any) -> Any:
        q, k, u = (F.linear(x, w).unflatten(-1, (2, -1)).transpose(0, 1) for w in (w, w * 2, w * 3))
        return F.linear(F.scaled_dot_product_attention(q[None], k[None], u[None])[0].transpose(0, 1).flatten(-2), v)

    def images(x: Any, w: Any, v: Any) -> Any:
        seen = x.unflatten(-1, (2, 4))[None].permute(0, 2, 1, 3)
        y = F.relu(F.conv2d(seen, w.unflatten(-1, (2, 4))[..., None, :1]))
        return F.conv2d(F.conv2d(y, v[..., None, None]), w[..., None, None])

    # How many chains there are, calls in them, and calls in none.
    wanted = {both: (1, 2, 0), around: (1, 2, 1), heads: (1, 5, 0), images: (1, 3, 0)}
    for function, counts in wanted.items():
        for dtype in (torch.float32, torch.bfloat16):
            torch._dynamo.reset()
            graphs: list[Any] = []
            inputs = drawn(((6, 8), (16, 8), (8, 16)), dtype)
            compiled = in_chains(function, graphs)
            with torch.no_grad():
                for _ in range(2):
                    every = zip(leaves(compiled(*inputs)), leaves(function(*inputs)), strict=True)
                    for ours, theirs in every:
                        assert (ours.dtype, ours.shape, ours.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
                        torch.testing.assert_close(ours, theirs, atol=16 * UNITS[dtype], rtol=16 * UNITS[dtype])
            (graph_module,) = graphs
            named = [(str(node.target), node.args) for node in graph_module.graph.nodes]
            texts = [args[0] for name, args in named if name.startswith("tilewright.call_chain")]
            assert not any(set(each) & {'"', "\\"} for each in texts)  # Inductor's C++ has them as they are.
            steps = [chains.read_chain(each)["steps"] for each in texts]
            alone = sum(name.startswith(("tilewright.call.", "tilewright.call_in")) for name, _ in named)
            assert (len(steps), sum(map(len, steps)), alone) == counts, (function.__name__, steps, alone)


def leaves(found: Any) -> list[Any]:
    """The tensors of a result."""
    return torch.utils._pytree.tree_leaves(found)


@case
def a_chain_is_not_longer_than_its_memory() -> None:
    kept, chains._MOST_BYTES = chains._MOST_BYTES, 2 * 6 * 16 * 4
    try:
        torch._dynamo.reset()
        graphs: list[Any] = []
        x, w = drawn(((6, 16), (16, 16)), torch.float32)

        def model(x: Any, w: Any) -> Any:
            for _ in range(5):
                x = F.relu(F.linear(x, w))
            return x

        with torch.no_grad():
            assert torch.allclose(in_chains(model, graphs)(x, w), model(x, w), atol=1e-6)
        targets = [str(node.target) for node in graphs[0].graph.nodes]
        assert targets.count("tilewright.call_chain.default") == 2
        assert targets.count("tilewright.call.default") == 1
    finally:
        chains._MOST_BYTES = kept


@case
def a_chain_step_by_step_is_the_op() -> None:
    graphs: list[Any] = []
    torch._dynamo.reset()
    inputs = drawn(((6, 8), (16, 8), (8, 16)), torch.float32)
    with torch.no_grad():
        in_chains(lambda x, w, v: F.linear(F.relu(F.linear(x, w)), v), graphs)(*inputs)
        (node,) = (each for each in graphs[0].graph.nodes if "call_chain" in str(each.target))
        operands = drawn([tuple(each.meta["val"].shape) for each in node.args[1]], torch.float32)
        whole = torch.ops.tilewright.call_chain(node.args[0], operands)
        (steps,) = chains.run(node.args[0], operands, lambda name, each, _: torch.ops.tilewright.call(name, each))
    assert torch.equal(whole, steps)


@case
def chains_run_from_inductors_cpp() -> None:
    def model(x: Any, w: Any, v: Any) -> Any:
        y = F.linear(x, w)
        z = F.linear(y, v)
        return y, z, F.linear(F.linear(torch.sort(z).values, w), v)

    torch._dynamo.reset()
    inputs = drawn(((6, 8), (16, 8), (8, 16)), torch.float32)
    with torch.no_grad():
        compiled = torch.compile(model, backend="tilewright", options={"cpp_wrapper": True, "timed": False})
        for _ in range(2):
            for ours, theirs in zip(compiled(*inputs), model(*inputs), strict=True):
                torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


if __name__ == "__main__":
    run()
