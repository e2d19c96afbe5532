// Where a sweep works: a folder of its own in the folder that a store's spec names, removed at the
// end with all that was made for it, however the sweep ends. The store itself is never touched.
#pragma once

#include <memory>
#include <string>

#include "offload/status.h"

namespace kvbed {

class SweepPlace {
 public:
  // Makes the folder, and `path` with its parents when missing. What killed sweeps left is removed;
  // a sweep that still runs keeps its own.
  static Result<std::unique_ptr<SweepPlace>> Open(const std::string& path);
  ~SweepPlace();
  SweepPlace(const SweepPlace&) = delete;
  SweepPlace& operator=(const SweepPlace&) = delete;

  const std::string& folder() const { return folder_; }

 private:
  SweepPlace() = default;

  std::string first_made_;  // of the path's folders; empty when all were there
  std::string path_;
  std::string folder_;
  int lock_fd_ = -1;  // held while the sweep runs, so that others see that it does
};

}  // namespace kvbed
