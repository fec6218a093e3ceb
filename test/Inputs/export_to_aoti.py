# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a package of AOTInductor with ops of tilewright, a library of their kernels, and an input and output: export_to_aoti.py FOLDER."""

import sys

import tilewright.torch as ours
import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

folder = sys.argv[1]
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
x = torch.rand(4, 16)
with torch.no_grad():
    ours.optimize(model, attention=False)(x).numpy().tofile(f"{folder}/out.bin")
    program = torch.export.export(model, (x,))
    configs = {"aot_inductor.compile_wrapper_opt_level": "O0"}
    torch._inductor.aoti_compile_and_package(program, package_path=f"{folder}/model.pt2", inductor_configs=configs)
x.numpy().tofile(f"{folder}/in.bin")
ours.library(folder, "layers", targets=["host"])
