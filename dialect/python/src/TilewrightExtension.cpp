// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright.mlir._mlir_libs._tilewright: the dialect's attributes, registration, and translation to LLVM IR.

#include "tilewright-c/Tilewright.h"

#include "mlir-c/Dialect/Transform/Interpreter.h"
#include "mlir/Bindings/Python/IRAttributes.h"
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

#include <stdexcept>
#include <string>

namespace nb = nanobind;
using namespace mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN;

namespace {

std::string toString(MlirStringRef text) { return std::string(text.data, text.length); }
MlirStringRef toRef(const std::string &text) { return mlirStringRefCreate(text.data(), text.size()); }

/// Calls `make` with a location for its diagnostics; raises ir.MLIRError with them when it returns nothing.
template <typename Make>
MlirAttribute getChecked(PyMlirContextRef context, Make make) {
  PyMlirContext::ErrorCapture errors(context);
  MlirAttribute attribute = make(mlirLocationUnknownGet(context->get()));
  if (mlirAttributeIsNull(attribute))
    throw MLIRError("Invalid attribute", errors.take());
  return attribute;
}

struct PyTargetAttr : PyConcreteAttribute<PyTargetAttr> {
  static constexpr IsAFunctionTy isaFunction = tilewrightAttributeIsATarget;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = tilewrightTargetAttrGetTypeID;
  static constexpr const char *pyClassName = "TargetAttr";
  using PyConcreteAttribute::PyConcreteAttribute;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](const std::string &name, const std::string &triple, const std::string &features, const std::string &tuneCpu,
           int64_t vectorBits, int64_t preferVectorWidth, DefaultingPyMlirContext context) {
          MlirAttribute attribute = getChecked(context->getRef(), [&](MlirLocation where) {
            return tilewrightTargetAttrGetChecked(where, toRef(name), toRef(triple), toRef(features), toRef(tuneCpu),
                                                  vectorBits, preferVectorWidth);
          });
          return PyTargetAttr(context->getRef(), attribute);
        },
        nb::arg("name"), nb::arg("triple"), nb::arg("features") = "", nb::kw_only(), nb::arg("tune_cpu") = "",
        nb::arg("vector_bits") = 0, nb::arg("prefer_vector_width") = 0, nb::arg("context") = nb::none(),
        "The attribute #tilewright.target; widths in bits, 0 for open. Raises MLIRError for invalid parameters.");
    c.def_prop_ro("name", [](PyTargetAttr &self) { return toString(tilewrightTargetAttrGetName(self)); });
    c.def_prop_ro("triple", [](PyTargetAttr &self) { return toString(tilewrightTargetAttrGetTriple(self)); });
    c.def_prop_ro("features", [](PyTargetAttr &self) { return toString(tilewrightTargetAttrGetFeatures(self)); });
    c.def_prop_ro("tune_cpu", [](PyTargetAttr &self) { return toString(tilewrightTargetAttrGetTuneCpu(self)); });
    c.def_prop_ro("vector_bits", [](PyTargetAttr &self) { return tilewrightTargetAttrGetVectorBits(self); });
    c.def_prop_ro("prefer_vector_width",
                  [](PyTargetAttr &self) { return tilewrightTargetAttrGetPreferVectorWidth(self); });
  }
};

struct PyScheduleAttr : PyConcreteAttribute<PyScheduleAttr> {
  static constexpr IsAFunctionTy isaFunction = tilewrightAttributeIsASchedule;
  static constexpr GetTypeIDFunctionTy getTypeIdFunction = tilewrightScheduleAttrGetTypeID;
  static constexpr const char *pyClassName = "ScheduleAttr";
  using PyConcreteAttribute::PyConcreteAttribute;

  static void bindDerived(ClassTy &c) {
    c.def_static(
        "get",
        [](const std::string &strategy, std::optional<PyDictAttribute> parameters, const std::string &source,
           DefaultingPyMlirContext context) {
          MlirAttribute attribute = getChecked(context->getRef(), [&](MlirLocation where) {
            MlirAttribute dictionary =
                parameters ? parameters->get() : mlirDictionaryAttrGet(context->get(), 0, nullptr);
            return tilewrightScheduleAttrGetChecked(where, toRef(strategy), dictionary, toRef(source));
          });
          return PyScheduleAttr(context->getRef(), attribute);
        },
        nb::arg("strategy"), nb::arg("parameters").none() = nb::none(), nb::arg("source") = "", nb::kw_only(),
        nb::arg("context") = nb::none(),
        "The attribute #tilewright.schedule; source is FILE:LINE. Raises MLIRError for invalid parameters.");
    c.def_prop_ro("strategy", [](PyScheduleAttr &self) { return toString(tilewrightScheduleAttrGetStrategy(self)); });
    c.def_prop_ro("parameters", [](PyScheduleAttr &self) {
      return PyDictAttribute(self.getContext(), tilewrightScheduleAttrGetParameters(self));
    });
    c.def_prop_ro("source", [](PyScheduleAttr &self) { return toString(tilewrightScheduleAttrGetSource(self)); });
  }
};

/// LLVM IR of `operation`, as text; throws what upstream said when it cannot be translated.
std::string translateToLLVMIR(PyOperationBase &operation) {
  struct Outcome {
    std::string text, errors;
  } outcome;
  MlirLogicalResult result = tilewrightTranslateToLLVMIR(
      operation.getOperation().get(),
      [](MlirStringRef text, void *into) { static_cast<Outcome *>(into)->text = toString(text); },
      [](MlirStringRef errors, void *into) { static_cast<Outcome *>(into)->errors = toString(errors); }, &outcome);
  if (mlirLogicalResultIsFailure(result))
    throw std::runtime_error("cannot translate to LLVM IR:\n" + outcome.errors);
  return std::move(outcome.text);
}

/// The binary of a spirv.module; throws what upstream said when it cannot be made.
nb::bytes serializeSPIRV(PyOperationBase &operation) {
  struct Outcome {
    std::string bytes, errors;
  } outcome;
  MlirLogicalResult result = tilewrightSerializeSPIRV(
      operation.getOperation().get(),
      [](MlirStringRef bytes, void *into) { static_cast<Outcome *>(into)->bytes = toString(bytes); },
      [](MlirStringRef errors, void *into) { static_cast<Outcome *>(into)->errors = toString(errors); }, &outcome);
  if (mlirLogicalResultIsFailure(result))
    throw std::runtime_error("cannot make SPIR-V:\n" + outcome.errors);
  return nb::bytes(outcome.bytes.data(), outcome.bytes.size());
}

/// Runs a named sequence. Diagnostics, warnings among them, go to the context's handlers: upstream's binding prints
/// those of a success to standard error and gives those of a failure as one text.
bool applyNamedSequence(PyOperationBase &payload, PyOperationBase &sequence, PyOperationBase &module) {
  MlirTransformOptions options = mlirTransformOptionsCreate();
  MlirLogicalResult result = mlirTransformApplyNamedSequence(
      payload.getOperation().get(), sequence.getOperation().get(), module.getOperation().get(), options);
  mlirTransformOptionsDestroy(options);
  return mlirLogicalResultIsSuccess(result);
}

/// Sets an attribute that is given as text. Python would import the attribute's dialect to hold it, and the bindings of
/// the LLVM dialect take longer to import than a kernel to compile.
void setAttribute(PyOperationBase &operation, const std::string &name, const std::string &text) {
  MlirOperation op = operation.getOperation().get();
  MlirAttribute attribute = mlirAttributeParseGet(mlirOperationGetContext(op), toRef(text));
  if (mlirAttributeIsNull(attribute))
    throw nb::value_error(("not an attribute: " + text).c_str());
  mlirOperationSetAttributeByName(op, toRef(name), attribute);
}

/// What a decision of a schedule says; throws for any other attribute.
PyDictAttribute decision(PyAttribute &attribute) {
  MlirAttribute found = tilewrightDecisionGetDictionary(attribute.get());
  if (mlirAttributeIsNull(found))
    throw nb::value_error("not a decision of a schedule");
  return PyDictAttribute(attribute.getContext(), found);
}

} // namespace

NB_MODULE(_tilewright, m) {
  m.doc() = "The tilewright dialect and LLVM IR translation";
  tilewrightRegisterAllPasses();
  m.def(
      "register_dialects", [](MlirDialectRegistry registry) { tilewrightRegisterAllDialects(registry); },
      nb::arg("registry"), "Adds the tilewright dialect and transform operations to a DialectRegistry.");
  m.def("translate_to_llvmir", &translateToLLVMIR, nb::arg("op"),
        "LLVM IR text of an operation in the LLVM dialect. Raises RuntimeError with the diagnostics on failure.");
  m.def("serialize_spirv", &serializeSPIRV, nb::arg("op"),
        "The binary of a spirv.module. Raises RuntimeError with the diagnostics on failure.");
  m.def(
      "apply_named_sequence", &applyNamedSequence, nb::arg("payload"), nb::arg("sequence"), nb::arg("module"),
      "Runs the named sequence of a transform module on a payload, in place. Returns whether it succeeded; what it "
      "says goes to the diagnostic handlers of the context. Operations of the payload held in Python are stale after.");
  m.def(
      "mark_step",
      [](PyOperationBase &root, std::optional<PyLocation> step) {
        tilewrightMarkStep(root.getOperation().get(), step ? step->get() : MlirLocation{nullptr});
      },
      nb::arg("root"), nb::arg("step").none(),
      "Writes a step of a schedule, which has just run, into the locations of the operations below root that it made "
      "or "
      "whose attributes it changed. None, before the first step: all operations count as known.");
  m.def(
      "forget_seen", [](PyOperationBase &root) { tilewrightForgetSeen(root.getOperation().get()); }, nb::arg("root"),
      "After the last step: removes from locations what mark_step remembers; the steps stay.");
  m.def("set_attribute", &setAttribute, nb::arg("op"), nb::arg("name"), nb::arg("text"),
        "Sets an attribute given as MLIR text. Raises ValueError when it does not parse.");
  m.def("decision", &decision, nb::arg("attribute"),
        "What an attribute under which a schedule records a decision says, by name. Raises ValueError for "
        "others.");
  PyTargetAttr::bind(m);
  PyScheduleAttr::bind(m);
}
