# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes a bottleneck of ResNet-50: three convolutions with fused bias and relu, the last one with the shortcut.

Batch normalization is folded into filters and biases, as for inference. Filters are packed once. Run it with ``python
examples/13_resnet_bottleneck.py [SIZE CHANNELS WIDTH]``. Where torch is installed, its result is compared too.
"""

import sys

import numpy as np
import tilewright as tw


def main(size: int = 14, channels: int = 256, width: int = 64) -> None:
    """Computes the block on images of size x size pixels with as many channels, and checks it."""
    rng = np.random.default_rng(0)

    def random(*shape: int) -> np.ndarray:
        return (rng.uniform(-1, 1, shape) / np.prod(shape[:-1]) ** 0.5).astype(np.float32)

    x = rng.uniform(-1, 1, (1, size, size, channels)).astype(np.float32)
    filters = [random(1, 1, channels, width), random(3, 3, width, width), random(1, 1, width, channels)]
    biases = [random(width), random(width), random(channels)]
    narrow = {"w_packed": True, "epilogue": (tw.bias(), tw.relu())}
    specs = [
        tw.Conv2dSpec(1, size, size, channels, width, 1, 1, **narrow),
        tw.Conv2dSpec(1, size, size, width, width, 3, 3, padding="same", **narrow),
        tw.Conv2dSpec(
            1, size, size, width, channels, 1, 1, w_packed=True, epilogue=(tw.bias(), tw.residual(), tw.relu())
        ),
    ]
    kernels = [tw.compile(spec) for spec in specs]
    packed = [kernel.pack("w", w) for kernel, w in zip(kernels, filters, strict=True)]

    h = kernels[0](x, packed[0], biases[0])
    h = kernels[1](h, packed[1], biases[1])
    y = kernels[2](h, packed[2], biases[2], x)

    # The same in double precision, one convolution after the other.
    expected = x
    for number, spec in enumerate(specs):
        further = [biases[number], *([x] if number == 2 else [])]
        expected = tw.reference(spec, expected.astype(np.float32), filters[number], *further)
    assert np.allclose(y, expected, rtol=1e-4, atol=1e-5)
    print(f"{sum(kernel.metadata.workspace_bytes for kernel in kernels)} bytes of scratch memory")
    compare_with_torch(y, x, filters, biases)


def compare_with_torch(y: np.ndarray, x: np.ndarray, filters: list[np.ndarray], biases: list[np.ndarray]) -> None:
    """Compares the block with torch's, or says why not."""
    try:
        import torch  # type: ignore[import-not-found]
    except ImportError:
        print("torch: not compared, it is not installed")
        return
    image = torch.from_numpy(x).permute(0, 3, 1, 2)
    banks = [torch.from_numpy(w.transpose(3, 2, 0, 1).copy()) for w in filters]
    conv2d, relu = torch.nn.functional.conv2d, torch.relu
    theirs = relu(conv2d(image, banks[0], torch.from_numpy(biases[0])))
    theirs = relu(conv2d(theirs, banks[1], torch.from_numpy(biases[1]), padding=1))
    theirs = relu(conv2d(theirs, banks[2], torch.from_numpy(biases[2])) + image)
    torch.testing.assert_close(torch.from_numpy(y).permute(0, 3, 1, 2), theirs, rtol=1e-4, atol=1e-5)
    print("torch: the same")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
