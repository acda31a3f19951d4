#include "core/host_binding.h"

#include <hwloc.h>
#include <sched.h>

#include <thread>

namespace pagestorm {

int HostCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  const unsigned cores = std::thread::hardware_concurrency();
  return cores > 0 ? static_cast<int>(cores) : 1;
}

struct HostBinding::Topology {
  hwloc_topology_t handle = nullptr;
};

HostBinding::HostBinding() : topology_(std::make_unique<Topology>()) {
  if (hwloc_topology_init(&topology_->handle) != 0) {
    topology_->handle = nullptr;
  } else if (hwloc_topology_load(topology_->handle) != 0) {
    hwloc_topology_destroy(topology_->handle);
    topology_->handle = nullptr;
  }
}

HostBinding::~HostBinding() {
  if (topology_->handle != nullptr) hwloc_topology_destroy(topology_->handle);
}

bool HostBinding::BindThisThread(int host_cpu) const {
  if (topology_->handle == nullptr || host_cpu < 0) return false;
  hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topology_->handle, static_cast<unsigned>(host_cpu));
  if (pu == nullptr) return false;
  return hwloc_set_cpubind(topology_->handle, pu->cpuset, HWLOC_CPUBIND_THREAD) == 0;
}

}  // namespace pagestorm
