// RocksDB's CRC32C, which Debian builds without the CPU's instructions for it (measured: 0.6 GB/s
// in software, 6 to 7 with them, equal values). An executable that links this defines
// rocksdb::crc32c::Extend, and librocksdb.so calls that in the place of its own.
#pragma once

#include <optional>
#include <string>

namespace kvbed {

// Which one a process uses.
enum class Crc32c {
  kFast,   // the CPU's instructions
  kStock,  // RocksDB's own
};

// The choice is the process's, since RocksDB has one function for all databases: while one holds
// kStock, asking for kFast fails, and the other way round.
class Crc32cChoice {
 public:
  // Empty while the other one is held.
  static std::optional<Crc32cChoice> Hold(Crc32c which);
  Crc32cChoice(Crc32cChoice&& other) noexcept;
  Crc32cChoice& operator=(Crc32cChoice&& other) noexcept;
  ~Crc32cChoice();

 private:
  Crc32cChoice() = default;
  bool held_ = true;
};

// Whether RocksDB's calls arrive here and are answered with the CPU's instructions; else why not.
// To be asked when a database is open, which has made it call.
struct Crc32cInEffect {
  bool fast = false;
  std::string text;  // "SSE4.2", or "RocksDB's own: ..."
};
Crc32cInEffect FindCrc32cInEffect();

}  // namespace kvbed
