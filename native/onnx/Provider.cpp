// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plugin execution provider: takes the groups of nodes of a model for which a plan has kernels. Without a plan it
// writes the model's nodes to a file, from which `tilewright.onnx.build` makes one.
//
// Options: `kernels`, the file of a plan; or `describe`, the file for the nodes.

#include "CachedAttention.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

using namespace tilewright::onnx;

namespace {

constexpr const char *providerName = "TilewrightExecutionProvider";

/// The provider of a session.
class Ours : public Provider {
public:
  Ours(const Session &own, const Logger *log, const std::string &kernels, std::string file)
      : Provider{}, session(own), logger(log), described(std::move(file)) {
    version = apiVersion;
    getName = [](const Provider *) { return providerName; };
    getCapability = [](Provider *given, const Graph *graph, Support *support) {
      auto *ours = static_cast<Ours *>(given);
      return ours->session.guarded([&] { ours->claim(graph, support); });
    };
    compile = [](Provider *given, const Graph **graphs, const Node **fused, size_t count, Compute **made, Node **) {
      auto *ours = static_cast<Ours *>(given);
      return ours->session.guarded([&] {
        for (size_t i = 0; i < count; ++i)
          made[i] = ours->made(graphs[i], fused[i]);
      });
    };
    releaseComputes = [](Provider *, Compute **computes, size_t count) {
      for (size_t i = 0; i < count; ++i)
        delete static_cast<OurCompute *>(computes[i]);
    };
    if (!kernels.empty())
      plan = std::make_unique<Plan>(kernels);
  }

private:
  /// The computation of a group.
  struct OurCompute : Compute {
    OurCompute(const Session &session, const Plan &plan, const Group &group, const Node *fused,
               const std::vector<const Node *> &nodes)
        : Compute{}, session(session) {
      if (group.cache)
        kernel = std::make_unique<CachedAttention>(session, plan, group, fused, nodes);
      else
        kernel = std::make_unique<Kernel>(session, plan, group, fused, nodes);
      version = apiVersion;
      createState = [](Compute *, NodeContext *, void **state) -> Status * {
        *state = nullptr;
        return nullptr;
      };
      compute = [](Compute *given, void *, KernelContext *context) {
        auto *ours = static_cast<OurCompute *>(given);
        return ours->session.guarded([&] { ours->kernel->run(context); });
      };
      releaseState = [](Compute *, void *) {};
    }
    std::unique_ptr<Computation> kernel;
    Session session;
  };

  std::vector<const Node *> nodesOf(const Graph *graph) const {
    return session.list<CountNodes, GetNodes, const Node *>(graph);
  }

  void claim(const Graph *graph, Support *support) {
    std::map<std::string, const Node *> nodes;
    std::ofstream file;
    if (!described.empty())
      file.open(described, std::ios::app);
    if (file.is_open())
      file << "graph\n";
    for (const Node *node : nodesOf(graph)) {
      std::string words = describe(session, node);
      if (file.is_open()) {
        file << words << "\n";
        for (const ValueInfo *each : session.outputs(node))
          if (each && session.get<IsGraphOutput, bool>(each))
            file << "output " << quoted(session.name(each)) << "\n";
      }
      nodes.emplace(std::move(words), node);
    }
    if (!described.empty() && !file)
      throw std::runtime_error("cannot write \"" + described + "\"");
    if (!plan)
      return;
    for (const Group &group : plan->groups())
      take(group, nodes, support);
    size_t all = plan->groups().size(), taken = byResult.size();
    // Graphs inside of nodes come before the one that they are in.
    if (taken < all && !session.get<GetParentNode, const Node *>(graph)) {
      std::string text =
          "tilewright: " + std::to_string(taken) + " of " + std::to_string(all) +
          " groups of nodes are computed by kernels; the others are not in this model, or not as they were";
      session.call<LogMessage>(logger, warning, text.c_str(), __FILE__, __LINE__, "getCapability");
    }
  }

  /// Takes the nodes of a group out of the graph, where they are all there and nothing else uses what is between them.
  void take(const Group &group, std::map<std::string, const Node *> &nodes, Support *support) {
    std::vector<const Node *> found;
    for (const std::string &words : group.nodes) {
      auto node = nodes.find(words);
      if (node == nodes.end())
        return;
      found.push_back(node->second);
    }
    std::set<const Node *> inside(found.begin(), found.end());
    auto isResult = [&](const ValueInfo *each) {
      return std::find(group.results.begin(), group.results.end(), session.name(each)) != group.results.end();
    };
    for (const Node *node : found)
      for (const ValueInfo *each : session.outputs(node))
        if (each && !isResult(each) && !isInside(each, inside))
          return;
    FusionOptions options{apiVersion, /*dropsConstants=*/true};
    if (Status *status =
            AddNodesToFuse::call(GetEpApi::call(session.table()), support, found.data(), found.size(), &options)) {
      ReleaseStatus::call(session.table(), status);
      return;
    }
    byResult[group.results.front()] = &group;
    for (const std::string &words : group.nodes)
      nodes.erase(words);
  }

  bool isInside(const ValueInfo *value, const std::set<const Node *> &inside) const {
    if (session.get<IsGraphOutput, bool>(value))
      return false;
    std::vector<const Node *> users(session.get<CountConsumers, size_t>(value));
    std::vector<int64_t> places(users.size());
    session.call<GetConsumers>(value, users.data(), places.data(), users.size());
    for (const Node *user : users)
      if (!inside.count(user))
        return false;
    return true;
  }

  Compute *made(const Graph *graph, const Node *fused) const {
    auto group = byResult.end();
    for (const ValueInfo *each : session.outputs(fused))
      if (group == byResult.end())
        group = byResult.find(session.name(each));
    if (group == byResult.end())
      throw std::runtime_error("a node of other results than a group has");
    return new OurCompute(session, *plan, *group->second, fused, nodesOf(graph));
  }

  Session session;
  const Logger *logger;
  std::string described;
  std::unique_ptr<Plan> plan;
  std::map<std::string, const Group *> byResult;
};

/// Makes providers.
class OurFactory : public Factory {
public:
  explicit OurFactory(const Session &own) : Factory{}, session(own) {
    version = apiVersion;
    Factory::getName = [](const Factory *) { return providerName; };
    getVendor = [](const Factory *) { return "tilewright"; };
    getVendorId = [](const Factory *) { return uint32_t{0}; };
    Factory::getVersion = [](const Factory *) { return TILEWRIGHT_VERSION; };
    getDevices = [](Factory *given, const HardwareDevice *const *devices, size_t count, EpDevice **into, size_t room,
                    size_t *made) {
      auto *ours = static_cast<OurFactory *>(given);
      return ours->session.guarded([&] { *made = ours->list(devices, count, into, room); });
    };
    createProvider = [](Factory *given, const HardwareDevice *const *, const Pairs *const *, size_t,
                        const SessionOptions *options, const Logger *logger, Provider **made) {
      auto *ours = static_cast<OurFactory *>(given);
      return ours->session.guarded([&] {
        *made = new Ours(ours->session, logger, ours->option(options, "kernels"), ours->option(options, "describe"));
      });
    };
    releaseProvider = [](Factory *, Provider *given) { delete static_cast<Ours *>(given); };
    createAllocator = [](Factory *, const void *, const Pairs *, void **made) -> Status * {
      *made = nullptr;
      return nullptr;
    };
    releaseAllocator = [](Factory *, void *) {};
    createDataTransfer = [](Factory *, void **made) -> Status * {
      *made = nullptr;
      return nullptr;
    };
    isStreamAware = [](const Factory *) { return false; };
  }

private:
  size_t list(const HardwareDevice *const *devices, size_t count, EpDevice **into, size_t room) {
    for (size_t i = 0; i < count && room; ++i)
      if (HardwareDeviceType::call(session.table(), devices[i]) == cpuDevice) {
        Session plugins(GetEpApi::call(session.table()));
        if (Status *status = CreateEpDevice::call(plugins.table(), this, devices[i], nullptr, nullptr, into)) {
          std::string message = GetErrorMessage::call(session.table(), status);
          ReleaseStatus::call(session.table(), status);
          throw std::runtime_error(message);
        }
        return 1;
      }
    return 0;
  }

  /// An option of the session; empty where it has none.
  std::string option(const SessionOptions *options, const std::string &name) const {
    // ONNX Runtime writes names of providers in lower case there.
    std::string key = "ep.";
    for (const char *each = providerName; *each; ++each)
      key += static_cast<char>(std::tolower(*each));
    key += "." + name;
    if (!session.get<HasSessionConfigEntry, int>(options, key.c_str()))
      return "";
    size_t size = 0;
    if (Status *status = GetSessionConfigEntry::call(session.table(), options, key.c_str(), nullptr, &size))
      ReleaseStatus::call(session.table(), status); // There is no room yet.
    std::string value(size, 0);
    session.call<GetSessionConfigEntry>(options, key.c_str(), value.data(), &size);
    return value.c_str();
  }

  Session session;
};

} // namespace

/// What ONNX Runtime calls when it registers the library.
extern "C" Status *CreateEpFactories(const char *, const ApiBase *base, const Logger *, Factory **factories,
                                     size_t room, size_t *made) {
  *made = 0;
  const Functions *table = base->getApi(apiVersion);
  if (!table) { // Of any release, by the first functions of the first version.
    const Functions *oldest = base->getApi(1);
    std::string text = std::string("tilewright needs ONNX Runtime 1.23 or later; this is ") + base->getVersion();
    return CreateStatus::call(oldest, invalidArgument, text.c_str());
  }
  if (!room)
    return CreateStatus::call(table, invalidArgument, "tilewright: no room for a factory");
  Session session(table);
  return session.guarded([&] {
    factories[0] = new OurFactory(session);
    *made = 1;
  });
}

extern "C" Status *ReleaseEpFactory(Factory *factory) {
  delete static_cast<OurFactory *>(factory);
  return nullptr;
}
