#include "tools/plan/plan_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/shape_weights.h"
#include "offload/checked_count.h"

namespace kvbed {
namespace {

constexpr uint64_t kPlanRowsMax = 100'000;

Status TooLarge(const ModelShape& shape, std::string_view what) {
  return Status::InvalidArgument(
      fmt::format("{} of {} are 2^64 or more: take fewer tokens or users", what, shape.name));
}

Result<PlanVariant> SizeVariant(const PlanRequest& request, ModelShape shape, bool own) {
  PlanVariant variant;
  variant.shape = std::move(shape);
  variant.own = own;
  KVBED_ASSIGN_OR_RETURN(variant.split, SplitKv(variant.shape, request.tp));
  const auto parameters = WeightParameters(variant.shape);
  const auto weight_bytes =
      (CheckedCount(parameters.value_or(UINT64_MAX)) * DTypeBytes(request.weight_dtype)).value();
  if (!parameters || !weight_bytes) return TooLarge(variant.shape, "the weights' bytes");
  variant.parameters = *parameters;
  variant.weight_bytes = *weight_bytes;
  const auto rank_bytes = RankKvBytesPerToken(variant.shape, variant.split, request.kv_dtype);
  const auto bytes = (CheckedCount(rank_bytes.value_or(UINT64_MAX)) * request.tp).value();
  if (!rank_bytes || !bytes) return TooLarge(variant.shape, "the KV bytes of a token");
  variant.kv_bytes_per_token = *bytes;
  return variant;
}

// KV heads that the same model could have had; its own are left out.
std::vector<uint32_t> OtherKvHeads(const ModelShape& shape) {
  // A latent row has no heads.
  if (shape.latent) return {};
  std::vector<uint32_t> counts = {shape.heads};
  const bool grouped = shape.kv_heads > 1 && shape.kv_heads < shape.heads;
  // 8 is what most grouped models have.
  if (!grouped && shape.heads > 8 && shape.heads % 8 == 0) counts.push_back(8);
  counts.push_back(1);
  std::erase(counts, shape.kv_heads);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

Result<std::vector<PlanVariant>> Variants(const PlanRequest& request) {
  std::vector<PlanVariant> variants;
  KVBED_ASSIGN_OR_RETURN(PlanVariant own, SizeVariant(request, request.shape, true));
  variants.push_back(std::move(own));
  for (uint32_t kv_heads : OtherKvHeads(request.shape)) {
    ModelShape shape = request.shape;
    shape.kv_heads = kv_heads;
    // A variant that these ranks can't share is no variant for this plan.
    if (!SplitKv(shape, request.tp).ok()) continue;
    KVBED_ASSIGN_OR_RETURN(PlanVariant other, SizeVariant(request, std::move(shape), false));
    variants.push_back(std::move(other));
  }
  return variants;
}

std::optional<uint64_t> UsersInMemory(const PlanRequest& request, const PlanVariant& variant,
                                      uint64_t rank_bytes_of_one) {
  if (!request.memory_bytes) return std::nullopt;
  const uint64_t rank_weights = (variant.weight_bytes - 1) / request.tp + 1;
  if (*request.memory_bytes < rank_weights) return uint64_t{0};
  return (*request.memory_bytes - rank_weights) / rank_bytes_of_one;
}

void AddTimes(const PlanRequest& request, PlanRow& row) {
  const auto bytes = static_cast<double>(row.kv_bytes);
  const auto tokens = static_cast<double>(row.ctx_tokens) * static_cast<double>(row.users);
  if (request.disk_gb_per_s) {
    row.restore_s = bytes / (request.disk_gb_per_s->value * 1e9);
    row.break_even_tok_per_s = tokens / *row.restore_s;
  }
  if (request.prefill_tok_per_s) {
    row.prefill_s = tokens / request.prefill_tok_per_s->value;
    row.break_even_gb_per_s = bytes / *row.prefill_s / 1e9;
  }
  if (request.claim_seconds) row.claim_gb_per_s = bytes / request.claim_seconds->value / 1e9;
}

Result<PlanRow> MakeRow(const PlanRequest& request, const PlanVariant& variant, uint64_t ctx_tokens,
                        uint64_t users) {
  const auto rank_one = RankKvBytes(variant.shape, variant.split, request.kv_dtype, ctx_tokens);
  const CheckedCount rank = CheckedCount(rank_one.value_or(UINT64_MAX)) * users;
  const auto all = (rank * request.tp).value();
  if (!rank_one || !all) {
    return TooLarge(variant.shape,
                    fmt::format("the KV bytes of {} tokens and {} users as {}", ctx_tokens, users,
                                AttentionKindName(AttentionKindOf(variant.shape))));
  }
  PlanRow row;
  row.ctx_tokens = ctx_tokens;
  row.users = users;
  row.kv_bytes = *all;
  row.rank_kv_bytes = *rank.value();
  row.ratio = static_cast<double>(row.kv_bytes) / static_cast<double>(variant.weight_bytes);
  row.users_in_memory = UsersInMemory(request, variant, *rank_one);
  if (request.disk_bytes) row.users_on_disk = *request.disk_bytes / (*rank_one * request.tp);
  AddTimes(request, row);
  return row;
}

}  // namespace

Result<Plan> MakePlan(PlanRequest request) {
  KVBED_CHECK(!request.ctx.empty() && !request.users.empty());
  Plan plan;
  KVBED_ASSIGN_OR_RETURN(const std::vector<PlanVariant> variants, Variants(request));
  if (request.ctx.size() * request.users.size() * variants.size() > kPlanRowsMax) {
    return Status::InvalidArgument(
        fmt::format("{} contexts x {} numbers of users x {} variants are more than {} rows: give "
                    "shorter lists",
                    request.ctx.size(), request.users.size(), variants.size(), kPlanRowsMax));
  }
  for (const PlanVariant& variant : variants) {
    PlannedVariant planned{.variant = variant, .rows = {}};
    for (uint64_t ctx_tokens : request.ctx) {
      for (uint64_t users : request.users) {
        KVBED_ASSIGN_OR_RETURN(PlanRow row, MakeRow(request, variant, ctx_tokens, users));
        planned.rows.push_back(row);
      }
    }
    plan.variants.push_back(std::move(planned));
  }
  const uint64_t longest = *std::max_element(request.ctx.begin(), request.ctx.end());
  KVBED_ASSIGN_OR_RETURN(plan.answer, MakeRow(request, variants.front(), longest, 1));
  plan.request = std::move(request);
  return plan;
}

}  // namespace kvbed
