// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Convolution.h"

#include "Problem.h"

namespace tilewright::torch_ops {

namespace {

/// The order of axes in memory, the slowest first, by torch's axes: images, channels, rows, columns.
const std::vector<int64_t> channelsFirst = {0, 1, 2, 3}, channelsLast = {0, 2, 3, 1};
/// Of filters, by torch's axes: channels of the result, channels of the image, rows, columns.
const std::vector<int64_t> outerFirst = {0, 1, 2, 3}, innerLast = {0, 2, 3, 1}, rowsFirst = {2, 3, 1, 0};

/// A tensor whose axes lie in memory in some order, without gaps; copied where they do not.
struct Ordered {
  Owned copy;
  View view; // With the axes in that order.
};

Ordered ordered(AtenTensorHandle tensor, const std::vector<int64_t> &axes) {
  Ordered made{{}, permuted(viewOf(tensor), axes)};
  if (isCompact(made.view))
    return made;
  made.copy = copyInOrder(tensor, axes);
  made.view = permuted(viewOf(made.copy.get()), axes);
  return made;
}

std::string pairText(const std::vector<int64_t> &pair) {
  return std::to_string(pair[0]) + "x" + std::to_string(pair[1]);
}

void require(bool holds, const char *what, const View &x, const View &w) {
  if (!holds)
    throw std::runtime_error("images of shape " + shapeText(x.sizes.data(), x.rank) + " and filters of " +
                             shapeText(w.sizes.data(), w.rank) + ": " + what);
}

} // namespace

Owned compute(const Convolution &given) {
  View x = viewOf(given.x), w = viewOf(given.weight);
  require(x.rank == 4 && w.rank == 4, "expected four dimensions", x, w);
  require(x.type == w.type, "expected the same element type", x, w);
  require(given.stride.size() == 2 && given.padding.size() == 2 && given.dilation.size() == 2,
          "expected two numbers for stride, padding and dilation", x, w);
  require(given.groups > 0 && x.sizes[1] == w.sizes[1] * given.groups && w.sizes[0] % given.groups == 0,
          "expected filters of the images' channels, in groups", x, w);
  std::vector<int64_t> shape = {x.sizes[0], w.sizes[0], 0, 0};
  for (int i = 0; i < 2; ++i) {
    int64_t reach = given.dilation[i] * (w.sizes[2 + i] - 1) + 1, room = x.sizes[2 + i] + 2 * given.padding[i];
    require(given.stride[i] > 0 && given.dilation[i] > 0 && given.padding[i] >= 0 && room >= reach,
            "the filter does not fit into the image with its padding", x, w);
    shape[2 + i] = (room - reach) / given.stride[i] + 1;
  }
  // Where both orders fit, as for single pixels, channels are last: such kernels are faster.
  bool isLast = isCompact(permuted(x, channelsLast)) || !isCompact(x);
  bool isDepthwise = isLast && given.groups == x.sizes[1] && given.groups == w.sizes[0];
  const std::vector<int64_t> &order = isLast ? channelsLast : channelsFirst;
  Ordered images = ordered(given.x, order);
  Ordered filters = ordered(given.weight, isDepthwise ? rowsFirst : isLast ? innerLast : outerFirst);
  std::vector<View> views = {images.view, filters.view};
  std::string entries;
  Ordered bias, residual;
  if (given.bias) {
    View view = viewOf(given.bias);
    require(view.rank == 1 && view.sizes[0] == w.sizes[0], "expected a bias for each channel of the result", x, w);
    bias = ordered(given.bias, {0});
    views.push_back(bias.view);
    entries = std::string("bias:n:") + elementOf(view.type);
  }
  if (given.activation != "none")
    entries += (entries.empty() ? "" : ",") + given.activation;
  if (given.residual) {
    View view = viewOf(given.residual);
    require(view.rank == 4 && std::equal(shape.begin(), shape.end(), view.sizes.begin()),
            "expected a residual of the result's shape", x, w);
    residual = ordered(given.residual, order);
    views.push_back(residual.view);
    entries += std::string(entries.empty() ? "" : ",") + "residual:mn:" + elementOf(view.type);
  }
  int32_t type = resultType(x.type);
  int64_t threads = threadCount();
  std::string key = "conv2d" + entries;
  for (int64_t number : {int64_t(isLast), x.sizes[0], x.sizes[1], x.sizes[2], x.sizes[3], w.sizes[0], w.sizes[2],
                         w.sizes[3], given.stride[0], given.stride[1], given.padding[0], given.padding[1],
                         given.dilation[0], given.dilation[1], given.groups, int64_t(x.type), threads})
    append(key, number);
  const Kernel &kernel = kernelFor(key, [&](Open open) {
    if (open != Open::none)
      return std::string();
    Words words("conv2d");
    words.add("n", x.sizes[0]).add("h", x.sizes[2]).add("w", x.sizes[3]).add("ic", x.sizes[1]);
    words.add("oc", w.sizes[0]).add("kh", w.sizes[2]).add("kw", w.sizes[3]);
    words.add("a", elementOf(x.type)).add("c", elementOf(type)).add("layout", isLast ? "nhwc" : "nchw");
    words.add("filter", isDepthwise ? "hwio" : isLast ? "ohwi" : "oihw").add("stride", pairText(given.stride));
    words.add("padding", pairText(given.padding)).add("dilation", pairText(given.dilation));
    words.add("groups", given.groups).add("epilogue", entries.empty() ? "-" : entries).add("threads", threads);
    return words.get();
  });
  View whole;
  Owned result = newTensorInOrder(shape.data(), order, type, whole);
  whole = permuted(whole, order);
  kernel.callInto(views.data(), views.size(), &whole, 1, /*isApart=*/true);
  return result;
}

} // namespace tilewright::torch_ops
