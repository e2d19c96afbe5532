// A store's open channels by their handles. Not thread-safe; its owner locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace kvbed {

template <class Channel>
class ChannelTable {
 public:
  uint32_t Add(std::unique_ptr<Channel> channel) {
    const auto free = std::find(channels_.begin(), channels_.end(), nullptr);
    const auto handle = static_cast<uint32_t>(free - channels_.begin());
    if (free == channels_.end()) {
      channels_.push_back(std::move(channel));
    } else {
      *free = std::move(channel);
    }
    return handle;
  }
  Channel* at(uint32_t handle) { return channels_[handle].get(); }
  std::unique_ptr<Channel> Remove(uint32_t handle) { return std::move(channels_[handle]); }

 private:
  std::vector<std::unique_ptr<Channel>> channels_;  // null where closed
};

}  // namespace kvbed
