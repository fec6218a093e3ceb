// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a schedule for a CPU has decided that upstream's passes do not carry out: how a product, a softmax between two products or a
// convolution is written out, which operands are prefetched, and for which calls a kernel is.

#ifndef TILEWRIGHT_IR_TILEWRIGHTPRODUCTATTRS_TD
#define TILEWRIGHT_IR_TILEWRIGHTPRODUCTATTRS_TD

include "Tilewright/IR/TilewrightGpuAttrs.td"

def Tilewright_ScalableTilesAttr : Tilewright_DecisionAttr<"ScalableTiles", "scalable_tiles"> {
  let summary = "A product of blocks is computed in register tiles of scalable vectors, from packed panels";
  let description = [{
    `mr` and `nr` are rows and columns of a register tile, the columns for vectors of 128 bits; `mc`, `nc` and `kc` are the most rows,
    columns and depth of a block, which size the panels.

    ```mlir
    linalg.matmul {tilewright.product = #tilewright.scalable_tiles<mr = 8, nr = 12, mc = 96, nc = 960, kc = 256>} ...
    ```
  }];
  let parameters = (ins "int64_t":$mr, "int64_t":$nr, "int64_t":$mc, "int64_t":$nc, "int64_t":$kc);
}

def Tilewright_OuterProductsAttr : Tilewright_DecisionAttr<"OuterProducts", "outer_products"> {
  let summary = "A product of blocks is computed by outer products that add to the tiles of SME's array ZA";
  let description = [{
    `mc`, `nc` and `kc` are the most rows, columns and depth of a block, which size the panels. The tiles are as large as the machine
    makes them.
  }];
  let parameters = (ins "int64_t":$mc, "int64_t":$nc, "int64_t":$kc);
}

def Tilewright_ScaledSumsAttr : Tilewright_DecisionAttr<"ScaledSums", "scaled_sums"> {
  let summary = "A product by quantized weights sums codes, and scales each sum once a group";
  let description = [{
    `mr` and `nr` are rows and columns of a register tile; `nc` columns are summed over a whole group before they are scaled; `kc` is
    the depth of one pass over them.
  }];
  let parameters = (ins "int64_t":$mr, "int64_t":$nr, "int64_t":$nc, "int64_t":$kc);
}

def Tilewright_OnlineSoftmaxAttr : Tilewright_DecisionAttr<"OnlineSoftmax", "online_softmax"> {
  let summary = "Two products with a softmax between them are computed in one pass over blocks of keys";
  let description = [{
    Stands on the `linalg.softmax` of softmax(scale * Q * K^T + mask) * V. A running maximum and a running sum for each query replace the
    matrix of scores: no more than one block of scores is ever in memory.

    `kc` is the number of keys in a block. `vectorize` is what lies in the lanes of vectors: `"queries"`, or `"head"`, the elements of a
    query, for few queries and many keys. `mr` and `nr` are rows of a register tile (keys of the first product, elements of a value of the
    second) and its vectors of queries; `columns` such tiles side by side meet one block of keys before the next block is read. `merged`
    takes the heads that share keys as more queries of one head. `multiplied` is the type as which elements are multiplied: `"f32"`, or
    `"bf16"` by the target's instruction for pairs. `instructions` are `"vectors"`, or `"tiles"`: products of bf16 in AMX's tile registers, two by
    two of them at a time, so that `mr` is 32.

    ```mlir
    linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 96, mr = 6, nr = 4, columns = 4>} ...
    ```
  }];
  let parameters = (ins
    "int64_t":$kc,
    DefaultValuedParameter<"int64_t", "1", "rows of a register tile">:$mr,
    DefaultValuedParameter<"int64_t", "1", "vectors of queries of a register tile">:$nr,
    DefaultValuedParameter<"int64_t", "1", "register tiles that meet one block of keys">:$columns,
    DefaultValuedParameter<"bool", "false", "whether heads that share keys are taken together">:$merged,
    StringRefParameter<"queries or head", [{"queries"}]>:$vectorize,
    StringRefParameter<"f32 or bf16", [{"f32"}]>:$multiplied,
    StringRefParameter<"vectors or tiles", [{"vectors"}]>:$instructions
  );
}

def Tilewright_PatchesAttr : Tilewright_DecisionAttr<"Patches", "patches"> {
  let summary = "An operand of a product is a matrix of patches, which is never made: packing reads them from the images (implicit im2col)";
  let description = [{
    Stands on the function of a product. `operand` is the number of the argument that is the matrix. Its `pixels` are `"rows"`: the matrix has
    a row for each pixel of the result, and in it rows and columns of the filter, and channels, these side by side; or `"columns"`: a
    column for each pixel, and a row for each channel, row and column of the filter.

    `images` is the shape of the images that the lowered function takes in place of the matrix, and `pitches` how many elements there are from one
    image, row, column and channel to the next. `extents` are rows and columns of an image, `results` those of the result, `filter` those of a filter; `channels` are
    those of the images. `stride`, `dilation` and `before`, zeros above and to the left, are for rows and columns.

    With a filter of one element, no strides and no zeros the matrix is the images as they lie, which nothing need pack.
  }];
  let parameters = (ins
    "int64_t":$operand,
    StringRefParameter<"rows or columns">:$pixels,
    "::mlir::DenseI64ArrayAttr":$images,
    "::mlir::DenseI64ArrayAttr":$pitches,
    "::mlir::DenseI64ArrayAttr":$extents,
    "::mlir::DenseI64ArrayAttr":$results,
    "::mlir::DenseI64ArrayAttr":$filter,
    "int64_t":$channels,
    "::mlir::DenseI64ArrayAttr":$stride,
    "::mlir::DenseI64ArrayAttr":$dilation,
    "::mlir::DenseI64ArrayAttr":$before
  );
}

def Tilewright_DepthwiseAttr : Tilewright_DecisionAttr<"Depthwise", "depthwise"> {
  let summary = "A depthwise convolution is computed in vectors of channels, which stay in a register over the whole filter";
  let description = [{
    Stands on a depthwise convolution of images in NHWC. `channels` is the number of channels in a vector of sums, and `pixels` of how many
    pixels of a row sums are in registers at once, which share what is read of the filter and of the image. The zeros of a `tensor.pad`
    before it are never in memory: what meets them is left out. What is done to each sum is done in registers too.

    ```mlir
    linalg.depthwise_conv_2d_nhwc_hwc {tilewright.convolution = #tilewright.depthwise<channels = 16, pixels = 7>} ...
    ```
  }];
  let parameters = (ins "int64_t":$channels, "int64_t":$pixels);
}

def Tilewright_PrefetchAttr : Tilewright_DecisionAttr<"Prefetch", "prefetch"> {
  let summary = "Which operands of a function are prefetched by software";
  let description = [{
    `operands` is `"none"`, where the hardware foresees every stream, or `"all"`, where also operands of dynamic extents are larger
    than the caches. A function without the attribute prefetches operands that are known to be larger than the caches.
  }];
  let parameters = (ins StringRefParameter<"none or all">:$operands);
}

def Tilewright_KernelAttr : Tilewright_DecisionAttr<"Kernel", "kernel"> {
  let summary = "For which calls a schedule is, and by how many threads its kernel is computed";
  let description = [{
    Stands on a schedule's module. `threads` is the most that a call uses, and `share` what they share: `"loops"` of the code, or `"calls"`,
    of which each computes rows or columns of C of its own by all of the code. Of a kernel with dynamic extents a schedule is one of several,
    and says for which extents: `extents` holds least, most and divisor of each of m, n and k that it was made for, and `cases`
    the cases that it computes. A case has its number, by which cases are tried in order, and the tests that a call's extents have to
    pass: the `extents` whose product is tested, the `least` and the `most` that it may be (-1: any), and what divides it.

    ```mlir
    module attributes {transform.with_named_sequence, tilewright.kernel = #tilewright.kernel<threads = 1,
        extents = {m = array<i64: 1, 8, 1>, n = array<i64: 1, 2147483647, 1>, k = array<i64: 1, 2147483647, 1>},
        cases = [ {number = 2 : i64, tests = [ {extents = "m", least = 0 : i64, most = 8 : i64, multiple = 1 : i64} ]} ]>} { ... }
    ```
  }];
  let parameters = (ins
    "int64_t":$threads,
    StringRefParameter<"loops or calls", [{"loops"}]>:$share,
    DefaultValuedParameter<"::mlir::DictionaryAttr", "::mlir::DictionaryAttr::get($_ctxt)", "extents that it is for">:$extents,
    DefaultValuedParameter<"::mlir::ArrayAttr", "::mlir::ArrayAttr::get($_ctxt, {})", "cases that it computes">:$cases
  );
}

#endif // TILEWRIGHT_IR_TILEWRIGHTPRODUCTATTRS_TD
