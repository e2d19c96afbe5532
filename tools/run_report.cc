#include "tools/run_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/store_access.h"

namespace kvbed {

int ExitCodeOf(const RunReport& report) {
  const auto is = [](const auto& verdict, VerdictStatus status) {
    return verdict && verdict->status == status;
  };
  // A finding stands whatever the control says: a record failed its checks.
  if (report.restore && !report.restore->restore.findings.empty()) return kExitFailedCheck;
  if (is(report.control, VerdictStatus::kDiffers)) return kExitNoVerdict;
  if (is(report.bytes, VerdictStatus::kDiffers) || is(report.logits, VerdictStatus::kDiffers) ||
      is(report.tokens, VerdictStatus::kDiffers)) {
    return kExitFailedCheck;
  }
  if (report.restore && !report.restore->restore.failed_reads.empty()) return kExitUnusable;
  if (is(report.bytes, VerdictStatus::kNotAssessable) ||
      is(report.control, VerdictStatus::kNotAssessable)) {
    return kExitNoVerdict;
  }
  return kExitOk;
}

Json ReportEnvironmentJson(const RunReport& report) {
  EnvironmentQuery query;
  query.path = report.store ? PathOfSpec(report.store->spec) : "";
  query.huge_page_bytes = report.huge_page_bytes;
  query.seed = report.header.seed;
  query.model_fingerprint = report.model.digests->Fingerprint().ToHex();
  return EnvironmentJson(ReadEnvironment(query));
}

std::string ShowToken(const TokenView& token) {
  return token.text.empty() ? std::to_string(token.id)
                            : fmt::format("\"{}\" {}", token.text, token.id);
}

std::vector<TokenView> ViewTokens(std::span<const TokenId> ids, const ModelFiles& model) {
  std::vector<TokenView> tokens;
  tokens.reserve(ids.size());
  for (TokenId id : ids) {
    tokens.push_back({id, model.tokenizer ? model.tokenizer->TokenText(id) : std::string()});
  }
  return tokens;
}

std::string DecodeText(std::span<const TokenId> ids, const ModelFiles& model) {
  return model.tokenizer ? model.tokenizer->Decode(ids) : std::string();
}

ModelDescription DescribeModel(const LoadedModel& model, const KvGeometry& geometry) {
  ModelDescription description;
  description.name = model.files.name;
  description.config = model.engine.config();
  description.digests = model.digests;
  description.geometry = geometry;
  description.kernels = model.engine.environment().kernel_set;
  description.weight_bytes = model.engine.weight_bytes();
  return description;
}

}  // namespace kvbed
