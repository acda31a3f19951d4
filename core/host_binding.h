// Binding CPU threads to the host's processors. The only file of core/ that knows hwloc.
#pragma once

#include <memory>

namespace pagestorm {

// Host CPUs this process may run on, at least 1.
[[nodiscard]] int HostCores();

class HostBinding {
 public:
  HostBinding();  // discovers the host's topology: some milliseconds
  ~HostBinding();
  HostBinding(const HostBinding&) = delete;
  HostBinding& operator=(const HostBinding&) = delete;

  // Binds the calling thread to the host PU of that OS index. Returns false if there is none, or
  // the host refuses. Thread-safe.
  [[nodiscard]] bool BindThisThread(int host_cpu) const;

 private:
  struct Topology;
  std::unique_ptr<Topology> topology_;
};

}  // namespace pagestorm
