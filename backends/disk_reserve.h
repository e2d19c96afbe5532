// Room on a disk for what a removal must write before it frees anything: RocksDB writes logs and
// tables when it is opened and for each deletion. A file takes the room, and gives it back when the
// disk is full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvbed {

// In a store's folder.
inline constexpr std::string_view kReserveFileName = "RESERVE";

class DiskReserve {
 public:
  static constexpr uint64_t kBytes = uint64_t{1} << 20;

  explicit DiskReserve(const std::string& folder)
      : path_(folder + "/" + std::string(kReserveFileName)) {}

  // Takes what there is, kBytes at most, unless the file has as much. A filesystem that can't
  // allocate ahead gets none.
  void Take() const;
  // Gives it back where less than kBytes are left.
  void ReleaseWhenFull() const;

 private:
  const std::string path_;
};

}  // namespace kvbed
