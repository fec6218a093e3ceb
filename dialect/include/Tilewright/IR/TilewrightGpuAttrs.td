// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a schedule for a GPU has decided: how a block's tile is shared among its threads, and how many stages its pipeline has.

#ifndef TILEWRIGHT_IR_TILEWRIGHTGPUATTRS_TD
#define TILEWRIGHT_IR_TILEWRIGHTGPUATTRS_TD

include "Tilewright/IR/TilewrightDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

class Tilewright_DecisionAttr<string name, string attrMnemonic> : AttrDef<Tilewright_Dialect, name> {
  let mnemonic = attrMnemonic;
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tilewright_ThreadsAttr : Tilewright_DecisionAttr<"Threads", "threads"> {
  let summary = "Each thread of a block multiplies and adds a rectangle of the block's tile";
  let description = [{
    Recorded by `transform.tilewright.share_among_threads`: rows and neighboring columns of a thread's part, in elements.

    ```mlir
    scf.forall (%i, %j) in (%0, %1) { ... } {mapping = [#gpu.block<y>, #gpu.block<x>],
                                             tilewright.sharing = #tilewright.threads<rows = 4, columns = 4>}
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns);
}

def Tilewright_WarpsAttr : Tilewright_DecisionAttr<"Warps", "warps"> {
  let summary = "Each warp of a block multiplies a rectangle of the block's tile by matrix instructions";
  let description = [{
    Recorded by `transform.tilewright.share_among_warps`: rows and columns of a warp's part, in elements, and the family of
    instructions: `mma_sync` (NVIDIA) or `matrix_cores` (AMD: MFMA or WMMA, whichever the target has).
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, StringRefParameter<"family of matrix instructions">:$instructions);
}

def Tilewright_WarpGroupsAttr : Tilewright_DecisionAttr<"WarpGroups", "warp_groups"> {
  let summary = "One warp group of a block copies tiles, the others multiply them";
  let description = [{
    Recorded by `transform.tilewright.specialize_warp_groups`, whose clauses these are.
  }];
  let parameters = (ins
    "int64_t":$consumers,
    DefaultValuedParameter<"bool", "false", "whether each consumer has a tile of its own">:$pingpong,
    DefaultValuedParameter<"int64_t", "1", "blocks that share the tile of B">:$cluster,
    DefaultValuedParameter<"int64_t", "1", "blocks that share the tile of A">:$beside,
    DefaultValuedParameter<"int64_t", "1", "blocks that share the steps over K of a tile">:$split,
    DefaultValuedParameter<"bool", "false", "whether blocks divide the steps of the last tiles among them">:$streamed,
    DefaultValuedParameter<"bool", "false", "whether what is added to a tile is copied to shared memory before">:$fetched,
    DefaultValuedParameter<"bool", "false", "whether C is computed as its transpose">:$swapped,
    DefaultValuedParameter<"int64_t", "8", "rows of tiles that blocks go through together">:$band,
    DefaultValuedParameter<"int64_t", "0", "steps after which sums are added to others; 0 for never">:$promote
  );
}

def Tilewright_TensorMemoryAttr : Tilewright_DecisionAttr<"TensorMemory", "tensor_memory"> {
  let summary = "One warp of a block copies tiles, one multiplies them with sums in tensor memory, four finish the sums";
  let description = [{
    Recorded by `transform.tilewright.specialize_warps`, whose clauses these are.
  }];
  let parameters = (ins
    "int64_t":$buffers,
    DefaultValuedParameter<"int64_t", "1", "blocks that share the tile of B">:$cluster,
    DefaultValuedParameter<"bool", "false", "whether the two blocks of a cluster multiply together">:$pair,
    DefaultValuedParameter<"int64_t", "1", "blocks that share the steps over K of a tile">:$split,
    DefaultValuedParameter<"bool", "false", "whether blocks divide the steps of the last tiles among them">:$streamed,
    DefaultValuedParameter<"bool", "false", "whether C is computed as its transpose">:$swapped,
    DefaultValuedParameter<"int64_t", "8", "rows of tiles that blocks go through together">:$band
  );
}

def Tilewright_PipelineAttr : Tilewright_DecisionAttr<"Pipeline", "pipeline"> {
  let summary = "The tiles of how many steps over K are in shared memory at a time";
  let description = [{
    Recorded by `transform.tilewright.pipeline`, on the loop over K.

    ```mlir
    scf.for %k = %c0 to %n step %c64 iter_args(%sums = %zeros) -> (vector<128x256xf32>) { ... }
        {tilewright.pipeline = #tilewright.pipeline<stages = 4>}
    ```
  }];
  let parameters = (ins "int64_t":$stages);
}

def Tilewright_SharedSoftmaxAttr : Tilewright_DecisionAttr<"SharedSoftmax", "shared_softmax"> {
  let summary = "A block of threads computes two products with a softmax between them, keys and values coming through shared memory";
  let description = [{
    Stands on the `linalg.softmax` of softmax(scale * Q * K^T + mask) * V. A block has `bm` queries of one head, and goes through its keys
    in blocks of `kc`, with a running maximum and a running sum for each query.

    `instructions` multiply: `"mma_sync"`, `"matrix_cores"` or, of single `"threads"`, multiply-adds. `rows` are the queries of a warp,
    or of a thread; `threads` those of a block. `multiplied` is the type as which elements are multiplied: `"f32"`, `"bf16"` or `"f16"`.

    ```mlir
    linalg.softmax {tilewright.softmax = #tilewright.shared_softmax<bm = 64, kc = 64, rows = 16, threads = 128,
                                                                    instructions = "mma_sync", multiplied = "bf16">} ...
    ```
  }];
  let parameters = (ins
    "int64_t":$bm,
    "int64_t":$kc,
    "int64_t":$rows,
    "int64_t":$threads,
    StringRefParameter<"what multiplies">:$instructions,
    StringRefParameter<"f32, bf16 or f16", [{"f32"}]>:$multiplied
  );
}

def Tilewright_WarpGroupSoftmaxAttr : Tilewright_DecisionAttr<"WarpGroupSoftmax", "warp_group_softmax"> {
  let summary = "One warp group of a block copies keys and values, the others multiply them with a softmax between, weights from registers";
  let description = [{
    Stands on the `linalg.softmax` of softmax(scale * Q * K^T + mask) * V. A block has `bm` queries of each of
    `merged` heads that share keys: each warp group that multiplies has 64 rows of these. They go through the same keys in blocks of `kc`, of which `stages` are in shared memory
    at a time, and as many of the values.

    With `overlap`, scores of the next block of keys are begun before weights and values of this one are multiplied, and their softmax
    is computed meanwhile. With `pingpong`, warp groups begin their products in turns: one computes its softmax while another multiplies.
    `multiplied` is the type as which elements are multiplied: `"bf16"` or `"f16"`. `split` blocks of a cluster have a part of the keys
    each, and add up their results.

    ```mlir
    linalg.softmax {tilewright.softmax = #tilewright.warp_group_softmax<bm = 128, kc = 128, stages = 2, overlap = true,
                                                                        pingpong = true, multiplied = "bf16">} ...
    ```
  }];
  let parameters = (ins
    "int64_t":$bm,
    "int64_t":$kc,
    "int64_t":$stages,
    DefaultValuedParameter<"bool", "false", "whether a softmax is computed while products go on">:$overlap,
    DefaultValuedParameter<"bool", "false", "whether warp groups begin products in turns">:$pingpong,
    StringRefParameter<"bf16 or f16">:$multiplied,
    DefaultValuedParameter<"int64_t", "1", "heads that share keys, whose queries are rows of one tile">:$merged,
    DefaultValuedParameter<"int64_t", "1", "blocks that share the keys of a tile">:$split
  );
}

#endif // TILEWRIGHT_IR_TILEWRIGHTGPUATTRS_TD
