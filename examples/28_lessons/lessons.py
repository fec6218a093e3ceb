# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the five lessons on this machine, and draws them: ``python examples/28_lessons/lessons.py``.

docs/tutorials/fast_matmul.md explains them. A number, a multiple of 192, is another size than 1152; --svg names a picture to write.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright.bench.peak import Peak
from tilewright.bench.timing import cores

LESSONS = sorted((Path(tw.__file__).parent / "lab" / "examples").glob("6*_*.py"))
"""The schedules, which the lab has too."""
SAMPLES = 3
WIDTH, BAR, LABEL = 640, 26, 130


def measure(size: int = 1152) -> dict[str, float]:
    """The share of this machine's peak that each lesson reaches for matrices of size x size, and what tilewright chooses."""
    spec = tw.MatmulSpec(m=size, n=size, k=size)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in (spec.a_shape, spec.b_shape))
    expected, bound = tw.reference(spec, a, b), tw.error_bound(spec, a, b)
    peak = Peak(tw.targets.resolve("host"), ("f32", "f32"), cores(1), time.thread_time_ns)
    operations = peak.sample(peak.calibrate(0.02))
    peak.close()
    shares = {}
    for path in (*LESSONS, None):
        kernel = tw.compile(spec, schedule=path)
        c = kernel(a, b)
        if not (np.abs(c - expected) <= bound).all():
            raise SystemExit(f"{path}: wrong numbers")
        seconds = []
        for _ in range(SAMPLES):
            start = time.thread_time()
            kernel(a, b, out=c)
            seconds.append(time.thread_time() - start)
        shares[path.stem[3:] if path else kernel.metadata.schedule] = spec.flops / min(seconds) / operations
    return shares


def svg(shares: dict[str, float]) -> str:
    """The shares as bars."""
    rows = []
    for number, (name, share) in enumerate(shares.items()):
        top = number * BAR
        length = share * (WIDTH - LABEL - 60)
        rows.append(
            f'<text x="0" y="{top + 17}">{name}</text>'
            f'<rect x="{LABEL}" y="{top + 4}" width="{length:.1f}" height="{BAR - 8}" rx="3" fill="#3b7dd8"/>'
            f'<text x="{LABEL + length + 6:.1f}" y="{top + 17}">{share:.1%}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {BAR * len(shares)}" width="{WIDTH}" role="img"'
        f' aria-label="Share of the peak by lesson" font-family="sans-serif" font-size="13" fill="#777">{"".join(rows)}</svg>\n'
    )


def main() -> None:
    """Prints a bar for each lesson."""
    parser = argparse.ArgumentParser(description="Measure the five lessons on this machine.")
    parser.add_argument("size", type=int, nargs="?", default=1152, help="rows and columns, a multiple of 192")
    parser.add_argument("--svg", type=Path, help="a picture to write")
    given = parser.parse_args()
    if given.size < 192 or given.size % 192:
        parser.error(f"size is {given.size}; expected a multiple of 192")
    shares = measure(given.size)
    for name, share in shares.items():
        print(f"{name:12} {share:6.1%} of the peak  {'█' * round(50 * share)}")
    if given.svg:
        given.svg.write_text(svg(shares))


if __name__ == "__main__":
    main()
