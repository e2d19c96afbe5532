#include "tools/bench/endurance.h"

namespace kvbed {

Json EnduranceJson(const EnduranceInput& input) {
  std::optional<double> bytes_per_token;
  std::optional<uint64_t> tbw_bytes, tbw_tokens;
  if (input.tbw) tbw_bytes = static_cast<uint64_t>(*input.tbw * 1e12);
  if (input.write_amplification) {
    bytes_per_token = input.stored_bytes_per_token * *input.write_amplification;
    // Less than a byte a token is no measurement: a device that counted nothing.
    if (input.tbw && *bytes_per_token >= 1) {
      tbw_tokens = static_cast<uint64_t>(*input.tbw * 1e12 / *bytes_per_token);
    }
  }
  const std::string unknown =
      input.write_amplification ? "the device counted no writes" : input.no_amplification_reason;
  const std::string not_given = "no rating was given (--tbw)";
  Json out;
  SetOrReason(out, "bytes_per_token", bytes_per_token, unknown);
  out["stored_bytes_per_token"] = input.stored_bytes_per_token;
  SetOrReason(out, "write_amplification", input.write_amplification, unknown);
  SetOrReason(out, "tbw_bytes", tbw_bytes, not_given);
  SetOrReason(out, "tbw_tokens", tbw_tokens, input.tbw ? unknown : not_given);
  return out;
}

}  // namespace kvbed
