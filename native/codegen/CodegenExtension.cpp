// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright._codegen: LLVM's optimizer and code generators, without MLIR.

#include "Codegen.h"
#include "HostKernel.h"

#include "llvm/Config/llvm-config.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace tilewright;

using List = std::optional<std::string>;
using Names = std::vector<std::string>;

static std::string optimize(const std::string &ir, std::string triple, std::string cpu, std::string features, int level,
                            const List &passes, const Names &without) {
  nb::gil_scoped_release release;
  return codegen::optimize(ir, {std::move(triple), std::move(cpu), std::move(features)}, level, {passes, without});
}

static std::pair<std::string, std::vector<std::tuple<std::string, double, std::string>>>
optimizeWatched(const std::string &ir, std::string triple, std::string cpu, std::string features, int level,
                const List &passes, const Names &without, bool texts) {
  nb::gil_scoped_release release;
  codegen::PassRuns watch{texts, {}};
  codegen::Machine machine{std::move(triple), std::move(cpu), std::move(features)};
  std::string text = codegen::optimize(ir, machine, level, {passes, without}, &watch);
  std::vector<std::tuple<std::string, double, std::string>> runs;
  for (codegen::PassRun &run : watch.runs)
    runs.emplace_back(std::move(run.pass), run.seconds, std::move(run.after));
  return {std::move(text), std::move(runs)};
}

static std::string defaultPasses(std::string triple, std::string cpu, std::string features, int level) {
  return codegen::defaultPasses({std::move(triple), std::move(cpu), std::move(features)}, level);
}

static nb::bytes emit(const std::string &ir, std::string triple, std::string cpu, std::string features,
                      const std::string &kind, bool alignBranches) {
  if (kind != "asm" && kind != "obj")
    throw codegen::CodegenError("kind \"" + kind + "\"; expected \"asm\" or \"obj\"");
  std::string code;
  {
    nb::gil_scoped_release release;
    code = codegen::emit(ir, {std::move(triple), std::move(cpu), std::move(features)},
                         kind == "asm" ? codegen::Kind::assembly : codegen::Kind::object, alignBranches);
  }
  return nb::bytes(code.data(), code.size());
}

static std::string hostKernel(const std::string &ir, const std::string &kernel, const std::string &triple,
                              bool linesOfText, bool locations) {
  nb::gil_scoped_release release;
  return codegen::hostKernel(ir, kernel, triple, linesOfText, locations);
}

NB_MODULE(_codegen, m) {
  m.doc() = "LLVM's optimizer and code generators, without MLIR. What LLVM refuses is a ValueError with its message.";
  codegen::initialize();
  nb::register_exception_translator([](const std::exception_ptr &raised, void *) {
    try {
      std::rethrow_exception(raised);
    } catch (const codegen::CodegenError &error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    }
  });
  m.attr("llvm_version") = LLVM_VERSION_STRING;
  m.def(
      "optimize", &optimize, nb::arg("llvmir"), nb::kw_only(), nb::arg("triple"), nb::arg("cpu"), nb::arg("features"),
      nb::arg("level") = 3, nb::arg("passes") = nb::none(), nb::arg("without") = Names(),
      "LLVM IR text after passes, as opt's -passes takes them, or after LLVM's default pipeline of that level (0 to 3) "
      "for the machine; passes of the names in `without` are left out.");
  m.def("optimize_watched", &optimizeWatched, nb::arg("llvmir"), nb::kw_only(), nb::arg("triple"), nb::arg("cpu"),
        nb::arg("features"), nb::arg("level") = 3, nb::arg("passes") = nb::none(), nb::arg("without") = Names(),
        nb::arg("texts") = true,
        "The same, and the runs of passes in their order: name, seconds, and the module after those that changed it, "
        "where texts are wanted.");
  m.def("default_passes", &defaultPasses, nb::kw_only(), nb::arg("triple"), nb::arg("cpu"), nb::arg("features"),
        nb::arg("level") = 3, "The passes of LLVM's default pipeline of that level, as opt's -passes takes them.");
  m.def("emit", &emit, nb::arg("llvmir"), nb::kw_only(), nb::arg("triple"), nb::arg("cpu"), nb::arg("features"),
        nb::arg("kind"), nb::arg("align_branches") = false,
        "Assembly (\"asm\") or object (\"obj\") of LLVM IR text, which is not optimized any further. With "
        "`align_branches`, no jump of an object for x86 crosses 32 bytes, or ends there.");
  m.def("host_kernel", &hostKernel, nb::arg("llvmir"), nb::kw_only(), nb::arg("kernel"), nb::arg("triple"),
        nb::arg("lines_of_text") = false, nb::arg("locations") = false,
        "LLVM IR for the machine of a kernel of an NVVM module, which calls the emulator of GPU kernels.");
}
