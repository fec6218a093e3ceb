// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Team.h"
#include "OpenMP.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <vector>

using namespace tilewright::runtime;

namespace {

/// Bytes that the runtime takes for itself when it makes a team, at most, and for each thread of it beside its stack.
constexpr size_t slack = 4 << 20, slackOfThread = 64 << 10;
/// Where the runtime does not tell the size of its threads' stacks.
constexpr size_t usualStack = 8 << 20;
/// More than the runtime adds to that for a thread of a high number: the stacks tried here are then used again for its
/// own.
constexpr size_t stackOffset = 256 << 10;

/// Counts forks: a child has none of its parent's threads.
std::atomic<unsigned> forks{0};

/// The largest team that the calling thread is known to get.
struct Known {
  int32_t threads = 1;
  unsigned forks = 0;
};
thread_local Known known;

/// Threads that wait until all of them are there, or one cannot be made.
class Crowd {
public:
  explicit Crowd(int32_t most) { threads.reserve(static_cast<size_t>(most)); }

  ~Crowd() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      done = true;
    }
    wake.notify_all();
    for (pthread_t thread : threads)
      pthread_join(thread, nullptr);
  }

  /// Makes one more. Returns whether it could.
  bool grow(const pthread_attr_t &attributes) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, &Crowd::wait, this) != 0)
      return false;
    threads.push_back(thread);
    return true;
  }

  int32_t size() const { return static_cast<int32_t>(threads.size()); }

private:
  static void *wait(void *crowd) {
    auto &self = *static_cast<Crowd *>(crowd);
    std::unique_lock<std::mutex> lock(self.mutex);
    self.wake.wait(lock, [&] { return self.done; });
    return nullptr;
  }

  std::vector<pthread_t> threads;
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
};

size_t stackBytes() {
  auto ask = reinterpret_cast<size_t (*)()>(findOpenMP("kmp_get_stacksize_s"));
  return std::max(ask ? ask() : usualStack, usualStack) + stackOffset;
}

/// Whether so many bytes can be mapped beside all that there is now.
bool canMap(size_t bytes) {
  void *block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED)
    return false;
  munmap(block, bytes);
  return true;
}

/// How many of `wanted` threads there can be at once, the calling one among them.
int32_t tryThreads(int32_t wanted) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0)
    return 1;
  int32_t found = 1;
  if (pthread_attr_setstacksize(&attributes, stackBytes()) == 0) {
    Crowd crowd(wanted);
    while (crowd.size() + 1 < wanted && crowd.grow(attributes))
      ;
    found += crowd.size();
    // What a thread less leaves is more than the runtime takes.
    if (found > 1 && !canMap(slack + slackOfThread * static_cast<size_t>(found)))
      --found;
  }
  pthread_attr_destroy(&attributes);
  return found;
}

/// Threads that try at once would each find room for one of them.
std::mutex trying;

/// Lets a child of a fork try again, whatever other threads were at.
bool watchForks() {
  return pthread_atfork([] { trying.lock(); }, [] { trying.unlock(); },
                        [] {
                          ++forks;
                          trying.unlock();
                        }) == 0;
}

/// As many of `wanted` threads as a region of the calling thread can have.
int32_t granted(int32_t wanted) {
  if (wanted <= 1 || (wanted <= known.threads && known.forks == forks.load(std::memory_order_relaxed)))
    return wanted;
  static const bool watched = watchForks();
  std::lock_guard<std::mutex> lock(trying);
  int32_t found = 1;
  try {
    found = tryThreads(wanted);
  } catch (const std::bad_alloc &) { // Nothing unwinds through a kernel.
  }
  if (watched && found == wanted)
    known = {found, forks.load()};
  return found;
}

} // namespace

extern "C" void tilewright::runtime::tilewrightPushNumThreads(void *location, int32_t thread, int32_t threads) {
  static const auto push = reinterpret_cast<void (*)(void *, int32_t, int32_t)>(findOpenMP(pushNumThreads));
  push(location, thread, granted(threads));
}
