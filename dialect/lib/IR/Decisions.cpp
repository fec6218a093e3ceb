// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a decision of a schedule says, by name.

#include "Tilewright/IR/Tilewright.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;

DictionaryAttr tilewright::decisionAsDictionary(Attribute attribute) {
  Builder builder(attribute.getContext());
  NamedAttrList found;
  auto kind = [&](StringRef name) { found.append("kind", builder.getStringAttr(name)); };
  auto number = [&](StringRef name, int64_t value) { found.append(name, builder.getI64IntegerAttr(value)); };
  auto flag = [&](StringRef name, bool value) { found.append(name, builder.getBoolAttr(value)); };
  TypeSwitch<Attribute>(attribute)
      .Case([&](ThreadsAttr threads) {
        kind(ThreadsAttr::getMnemonic());
        number("rows", threads.getRows());
        number("columns", threads.getColumns());
      })
      .Case([&](WarpsAttr warps) {
        kind(warps.getInstructions());
        number("rows", warps.getRows());
        number("columns", warps.getColumns());
      })
      .Case([&](WarpGroupsAttr groups) {
        kind(WarpGroupsAttr::getMnemonic());
        number("consumers", groups.getConsumers());
        flag("pingpong", groups.getPingpong());
        number("cluster", groups.getCluster());
        number("beside", groups.getBeside());
        number("split", groups.getSplit());
        flag("streamed", groups.getStreamed());
        flag("fetched", groups.getFetched());
        flag("swapped", groups.getSwapped());
        number("band", groups.getBand());
        number("promote", groups.getPromote());
      })
      .Case([&](TensorMemoryAttr sums) {
        kind(TensorMemoryAttr::getMnemonic());
        number("buffers", sums.getBuffers());
        number("cluster", sums.getCluster());
        flag("pair", sums.getPair());
        number("split", sums.getSplit());
        flag("streamed", sums.getStreamed());
        flag("swapped", sums.getSwapped());
        number("band", sums.getBand());
      })
      .Case([&](PipelineAttr pipeline) {
        kind(PipelineAttr::getMnemonic());
        number("stages", pipeline.getStages());
      })
      .Case([&](ScalableTilesAttr tiles) {
        kind(ScalableTilesAttr::getMnemonic());
        number("mr", tiles.getMr());
        number("nr", tiles.getNr());
        number("mc", tiles.getMc());
        number("nc", tiles.getNc());
        number("kc", tiles.getKc());
      })
      .Case([&](OuterProductsAttr blocks) {
        kind(OuterProductsAttr::getMnemonic());
        number("mc", blocks.getMc());
        number("nc", blocks.getNc());
        number("kc", blocks.getKc());
      })
      .Case([&](ScaledSumsAttr sums) {
        kind(ScaledSumsAttr::getMnemonic());
        number("mr", sums.getMr());
        number("nr", sums.getNr());
        number("nc", sums.getNc());
        number("kc", sums.getKc());
      })
      .Case([&](OnlineSoftmaxAttr softmax) {
        kind(OnlineSoftmaxAttr::getMnemonic());
        number("kc", softmax.getKc());
        number("mr", softmax.getMr());
        number("nr", softmax.getNr());
        number("columns", softmax.getColumns());
        flag("merged", softmax.getMerged());
        found.append("vectorize", builder.getStringAttr(softmax.getVectorize()));
        found.append("multiplied", builder.getStringAttr(softmax.getMultiplied()));
        found.append("instructions", builder.getStringAttr(softmax.getInstructions()));
      })
      .Case([&](SharedSoftmaxAttr softmax) {
        kind(SharedSoftmaxAttr::getMnemonic());
        number("bm", softmax.getBm());
        number("kc", softmax.getKc());
        number("rows", softmax.getRows());
        number("threads", softmax.getThreads());
        found.append("instructions", builder.getStringAttr(softmax.getInstructions()));
        found.append("multiplied", builder.getStringAttr(softmax.getMultiplied()));
      })
      .Case([&](WarpGroupSoftmaxAttr softmax) {
        kind(WarpGroupSoftmaxAttr::getMnemonic());
        number("bm", softmax.getBm());
        number("kc", softmax.getKc());
        number("stages", softmax.getStages());
        flag("overlap", softmax.getOverlap());
        flag("pingpong", softmax.getPingpong());
        found.append("multiplied", builder.getStringAttr(softmax.getMultiplied()));
        number("merged", softmax.getMerged());
        number("split", softmax.getSplit());
      })
      .Case([&](PatchesAttr patches) {
        kind(PatchesAttr::getMnemonic());
        number("operand", patches.getOperand());
        found.append("pixels", builder.getStringAttr(patches.getPixels()));
        found.append("images", patches.getImages());
        found.append("pitches", patches.getPitches());
        found.append("extents", patches.getExtents());
        found.append("results", patches.getResults());
        found.append("filter", patches.getFilter());
        number("channels", patches.getChannels());
        found.append("stride", patches.getStride());
        found.append("dilation", patches.getDilation());
        found.append("before", patches.getBefore());
      })
      .Case([&](DepthwiseAttr depthwise) {
        kind(DepthwiseAttr::getMnemonic());
        number("channels", depthwise.getChannels());
        number("pixels", depthwise.getPixels());
      })
      .Case([&](PrefetchAttr prefetch) {
        kind(PrefetchAttr::getMnemonic());
        found.append("operands", builder.getStringAttr(prefetch.getOperands()));
      })
      .Case([&](KernelAttr kernel) {
        kind(KernelAttr::getMnemonic());
        number("threads", kernel.getThreads());
        found.append("share", builder.getStringAttr(kernel.getShare()));
        found.append("extents", kernel.getExtents());
        found.append("cases", kernel.getCases());
      });
  return found.empty() ? DictionaryAttr() : found.getDictionary(attribute.getContext());
}
