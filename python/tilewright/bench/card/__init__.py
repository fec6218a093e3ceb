# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Everything that needs an NVIDIA card, in two halves that share a folder.

`bundle.make` compiles, on any machine with this package, the kernels that `plan` names: cubins, what their launches take, and what
the emulator computed with them. ``python -m tilewright.bench.card FOLDER`` then runs on the machine of the card, which needs Python,
torch and cuda-core, but none of LLVM: it compares the emulator with the card bit by bit, checks every strategy with every type on
random data, and times kernels in turn with cuBLASLt and Triton. Each step's outcome is a line of ``FOLDER/records.jsonl``, so that
a run that ends early, for its budget or otherwise, goes on where it was. ``tilewright bench card FOLDER`` does both.
"""
