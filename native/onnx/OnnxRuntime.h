// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The structures by which ONNX Runtime calls a plugin execution provider, and the functions of its C API that ours
// calls. They are declared here, as those of DLPack and XLA are, so that one binary is built without ONNX Runtime and
// serves every release from 1.23 on: members are only ever appended. Source: onnxruntime_c_api.h and
// onnxruntime_ep_c_api.h in include/onnxruntime/core/session of ONNX Runtime; a function's number is its place in
// OrtApi.

#ifndef TILEWRIGHT_ONNX_ONNXRUNTIME_H
#define TILEWRIGHT_ONNX_ONNXRUNTIME_H

#include <cstddef>
#include <cstdint>

namespace tilewright::onnx {

/// The version of the API: that of ONNX Runtime 1.23, which first shows graphs to plugins.
constexpr uint32_t apiVersion = 23;

// Only ONNX Runtime knows what is in these.
struct Status;
struct Graph;
struct Node;
struct ValueInfo;
struct TypeInfo;
struct TensorInfo;
struct Value;
struct Attribute;
struct SessionOptions;
struct Logger;
struct KernelContext;
struct Support;
struct HardwareDevice;
struct EpDevice;
struct Pairs;
struct NodeContext;

struct Functions {
  void *entries[1];
};

struct ApiBase {
  const Functions *(*getApi)(uint32_t version);
  const char *(*getVersion)();
};

/// A function of a table of functions, by its place there.
template <int Place, typename Type>
struct Entry;
template <int Place, typename Result, typename... Arguments>
struct Entry<Place, Result(Arguments...)> {
  static Result call(const Functions *table, Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(table->entries[Place])(arguments...);
  }
};

// Of OrtApi.
using CreateStatus = Entry<0, Status *(int code, const char *message)>;
using GetErrorMessage = Entry<2, const char *(const Status *)>;
using GetTensorMutableData = Entry<51, Status *(Value *, void **)>;
using CastTypeInfoToTensorInfo = Entry<55, Status *(const TypeInfo *, const TensorInfo **)>;
using GetTensorElementType = Entry<60, Status *(const TensorInfo *, int *)>;
using GetDimensionsCount = Entry<61, Status *(const TensorInfo *, size_t *)>;
using GetDimensions = Entry<62, Status *(const TensorInfo *, int64_t *, size_t)>;
using GetSymbolicDimensions = Entry<63, Status *(const TensorInfo *, const char **, size_t)>;
using GetTensorTypeAndShape = Entry<65, Status *(const Value *, TensorInfo **)>;
using KernelContextGetInput = Entry<90, Status *(const KernelContext *, size_t, const Value **)>;
using KernelContextGetOutput = Entry<91, Status *(KernelContext *, size_t, const int64_t *, size_t, Value **)>;
using ReleaseStatus = Entry<93, void(Status *)>;
using ReleaseTensorInfo = Entry<99, void(TensorInfo *)>;
using HasSessionConfigEntry = Entry<237, Status *(const SessionOptions *, const char *, int *)>;
using GetSessionConfigEntry = Entry<238, Status *(const SessionOptions *, const char *, char *, size_t *)>;
using LogMessage =
    Entry<247, Status *(const Logger *, int severity, const char *, const char *file, int line, const char *function)>;
using ReadAttribute = Entry<272, Status *(const Attribute *, int kind, void *, size_t, size_t *)>;
using ParallelFor =
    Entry<274, Status *(const KernelContext *, void (*)(void *, size_t), size_t total, size_t parts, void *)>;
using GetValueInfoName = Entry<289, Status *(const ValueInfo *, const char **)>;
using GetValueInfoTypeInfo = Entry<290, Status *(const ValueInfo *, const TypeInfo **)>;
using HardwareDeviceType = Entry<307, int(const HardwareDevice *)>;
using GetEpApi = Entry<317, const Functions *()>;
using GetTensorBytes = Entry<318, Status *(const Value *, size_t *)>;
using CountConsumers = Entry<324, Status *(const ValueInfo *, size_t *)>;
using GetConsumers = Entry<325, Status *(const ValueInfo *, const Node **, int64_t *, size_t)>;
using GetInitializer = Entry<326, Status *(const ValueInfo *, const Value **)>;
using IsGraphOutput = Entry<330, Status *(const ValueInfo *, bool *)>;
using IsConstant = Entry<331, Status *(const ValueInfo *, bool *)>;
using CountNodes = Entry<344, Status *(const Graph *, size_t *)>;
using GetNodes = Entry<345, Status *(const Graph *, const Node **, size_t)>;
using GetParentNode = Entry<346, Status *(const Graph *, const Node **)>;
using GetOperatorType = Entry<350, Status *(const Node *, const char **)>;
using GetDomain = Entry<351, Status *(const Node *, const char **)>;
using GetSinceVersion = Entry<352, Status *(const Node *, int *)>;
using CountInputs = Entry<353, Status *(const Node *, size_t *)>;
using GetInputs = Entry<354, Status *(const Node *, const ValueInfo **, size_t)>;
using CountOutputs = Entry<355, Status *(const Node *, size_t *)>;
using GetOutputs = Entry<356, Status *(const Node *, const ValueInfo **, size_t)>;
using CountImplicitInputs = Entry<357, Status *(const Node *, size_t *)>;
using GetImplicitInputs = Entry<358, Status *(const Node *, const ValueInfo **, size_t)>;
using CountAttributes = Entry<359, Status *(const Node *, size_t *)>;
using GetAttributes = Entry<360, Status *(const Node *, const Attribute **, size_t)>;
using GetAttributeKind = Entry<363, Status *(const Attribute *, int *)>;
using GetAttributeName = Entry<364, Status *(const Attribute *, const char **)>;
using GetTensorData = Entry<378, Status *(const Value *, const void **)>;

// Of OrtEpApi.
struct Factory;
using CreateEpDevice =
    Entry<0, Status *(Factory *, const HardwareDevice *, const Pairs *metadata, const Pairs *options, EpDevice **)>;
struct FusionOptions {
  uint32_t version;
  bool dropsConstants; // The provider has copies of constants of its own.
};
using AddNodesToFuse = Entry<2, Status *(Support *, const Node *const *, size_t, const FusionOptions *)>;

constexpr int genericFailure = 1, invalidArgument = 2; // Of OrtErrorCode.
constexpr int warning = 2;                             // Of OrtLoggingLevel.
constexpr int cpuDevice = 0;                           // Of OrtHardwareDeviceType.
/// Of OrtOpAttrType.
enum AttributeKind { undefined, integer, integers, real, reals, text, texts };

struct Compute {
  uint32_t version;
  Status *(*createState)(Compute *, NodeContext *, void **state);
  Status *(*compute)(Compute *, void *state, KernelContext *);
  void (*releaseState)(Compute *, void *state);
};

/// OrtEp, as of 1.23.
struct Provider {
  uint32_t version;
  const char *(*getName)(const Provider *);
  Status *(*getCapability)(Provider *, const Graph *, Support *);
  Status *(*compile)(Provider *, const Graph **, const Node **fused, size_t count, Compute **, Node **contexts);
  void (*releaseComputes)(Provider *, Compute **, size_t count);
  void *optional[8];
};

/// OrtEpFactory, as of 1.23.
struct Factory {
  uint32_t version;
  const char *(*getName)(const Factory *);
  const char *(*getVendor)(const Factory *);
  Status *(*getDevices)(Factory *, const HardwareDevice *const *, size_t count, EpDevice **, size_t room, size_t *made);
  Status *(*createProvider)(Factory *, const HardwareDevice *const *, const Pairs *const *metadata, size_t count,
                            const SessionOptions *, const Logger *, Provider **);
  void (*releaseProvider)(Factory *, Provider *);
  uint32_t (*getVendorId)(const Factory *);
  const char *(*getVersion)(const Factory *);
  void *validateCompiled;
  Status *(*createAllocator)(Factory *, const void *memory, const Pairs *, void **allocator);
  void (*releaseAllocator)(Factory *, void *);
  Status *(*createDataTransfer)(Factory *, void **);
  bool (*isStreamAware)(const Factory *);
  void *createSyncStream;
};

} // namespace tilewright::onnx

#endif // TILEWRIGHT_ONNX_ONNXRUNTIME_H
