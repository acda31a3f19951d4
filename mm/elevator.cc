#include "mm/elevator.h"

#include <utility>

namespace pagestorm::mm {

bool Elevator::Merge(IoDirection direction, std::uint64_t sector, FrameNo frame) {
  Queue& queue = QueueOf(direction);
  const auto room = [&](const IoRequest& request) {
    return std::cmp_less(request.frames.size(), options_.max_request_pages);
  };
  auto after = queue.upper_bound(sector);
  if (after != queue.begin()) {
    IoRequest& before = std::prev(after)->second;
    if (before.end() == sector && room(before)) {
      before.frames.push_back(frame);
      return true;
    }
  }
  if (after == queue.end() || after->first != sector + 1 || !room(after->second)) return false;
  auto node = queue.extract(after);
  node.key() = node.mapped().first = sector;
  node.mapped().frames.insert(node.mapped().frames.begin(), frame);
  queue.insert(std::move(node));
  return true;
}

void Elevator::Add(IoDirection direction, std::uint64_t sector, FrameNo frame, Ns now) {
  QueueOf(direction).emplace(sector, IoRequest{direction, sector, {frame}, now});
}

IoDirection Elevator::Choose(Ns now) {
  const IoDirection other = turn_ == IoDirection::kRead ? IoDirection::kWrite : IoDirection::kRead;
  const bool expired = now.n >= turn_ends_;
  if (QueueOf(turn_).empty() || (expired && !QueueOf(other).empty())) {
    turn_ = other;
  } else if (!expired) {
    return turn_;
  }
  turn_ends_ =
      now.n + (turn_ == IoDirection::kRead ? options_.read_slice.n : options_.write_slice.n);
  return turn_;
}

std::optional<IoRequest> Elevator::Next(Ns now) {
  if (queued() == 0) return std::nullopt;
  Queue& queue = QueueOf(Choose(now));
  auto next = queue.lower_bound(head_);
  if (next == queue.end()) next = queue.begin();  // the sweep starts over
  IoRequest request = std::move(next->second);
  queue.erase(next);
  head_ = request.end();
  return request;
}

}  // namespace pagestorm::mm
