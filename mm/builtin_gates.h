// The gates that come with pagestorm, a file each. docs/model.md says what each leaves out.
// Source: spec throttle-2.6.26 1 (throttle), 5.1-5.3, 5.6.
#pragma once

#include "mm/throttle.h"

namespace pagestorm::mm {

// Versions 1 to 8 of the throttle of 2008 (mm/throttle_gate.h).
[[nodiscard]] GateType ThrottleGateType();
// 2.6.32: reclaimers wait while more pages are isolated than inactive.
[[nodiscard]] GateType TooManyIsolatedGate();
// 2.6.37: the naps of direct reclaim only where a device and the zone are congested.
[[nodiscard]] GateType WaitIffCongestedGate();
// 3.6: direct reclaimers wait for kswapd while a node's reserves are half used up.
[[nodiscard]] GateType PfmemallocGate();
// 5.16: reclaimers sleep a while for one of four reasons, and are woken by progress.
[[nodiscard]] GateType ReclaimThrottleGate();

}  // namespace pagestorm::mm
