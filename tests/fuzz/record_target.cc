#include <algorithm>
#include <vector>

#include "offload/aligned_buffer.h"
#include "offload/damage.h"
#include "offload/record.h"
#include "offload/record_layout.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {
namespace {

// Whole records above this are not worked on: a header may ask for a gibibyte.
constexpr uint64_t kRecordBytesTried = 1 << 20;

bool UseRecord(std::vector<std::byte> record) {
  const auto header = DecodeRecordHeader(record);
  if (!header.ok()) return false;
  KVBED_CHECK(header->geometry.Validate().ok());
  KVBED_CHECK(header->tokens_used >= 1 && header->tokens_used <= header->geometry.block_tokens);
  const Digest128 digest = RecordDigestOf(record);
  // The bytes as they came, then with the length that the header says.
  for (const bool whole : {false, true}) {
    if (whole) {
      if (header->geometry.record_bytes() > kRecordBytesTried) break;
      record.resize(header->geometry.record_bytes());
    }
    auto finding = VerifyRecord(record, *header, digest);
    if (!finding) return true;
    if (record.size() == header->geometry.record_bytes()) {
      ExplainDamage(record, *header, digest, *finding);
    }
  }
  return false;
}

}  // namespace

bool FuzzRecord(Bytes input) {
  std::vector<std::byte> record(input.begin(), input.end());
  const bool accepted = UseRecord(record);
  if (record.size() >= kPageBytes) {
    StoreLe(record, record_layout::kHeaderChecksumAt,
            record_layout::HeaderChecksum(Bytes(record).first(kPageBytes)));
    UseRecord(std::move(record));
  }
  return accepted;
}

}  // namespace kvbed
