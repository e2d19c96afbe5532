// What offloading wears of a drive: bytes written for each token, and the tokens that a drive's
// rated writes buy.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "tools/result_json.h"

namespace kvbed {

struct EnduranceInput {
  double stored_bytes_per_token = 0;          // records, of all ranks of one sequence
  std::optional<double> write_amplification;  // device bytes for each of these
  std::string no_amplification_reason;
  std::optional<double> tbw;  // 10^12 bytes that the drive is rated for
};

// {bytes_per_token, stored_bytes_per_token, write_amplification, tbw_bytes, tbw_tokens}. TBW counts
// what a host writes (JEDEC JESD218), so a drive's own copying is no part of it.
Json EnduranceJson(const EnduranceInput& input);

}  // namespace kvbed
