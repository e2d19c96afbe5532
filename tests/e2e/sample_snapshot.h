// A snapshot with known K and V in a store, made without a model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "backends/open_store.h"
#include "offload/block_pool.h"
#include "offload/offloader.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/sample_kv.h"

namespace kvbed {

// Adds the snapshot `name` to the store that `spec` names, which is made when it isn't there. `kv`
// must be of bf16 or fp32. `first_token`: the id that token_ids begins with.
inline void MakeSampleSnapshot(const std::string& spec, const std::string& name, SampleKv kv,
                               uint32_t block_tokens) {
  ASSERT_OK_AND_ASSIGN(const StoreSpec parsed, ParseStoreSpec(spec));
  const KvGeometry geometry = {
      .layers = static_cast<uint32_t>(kv.shape.layers),
      .kv_heads = static_cast<uint32_t>(kv.shape.kv_heads),
      .head_dim = static_cast<uint32_t>(kv.shape.head_dim),
      .dtype = kv.shape.element == KvElement::kFp32 ? DType::kFp32 : DType::kBf16,
      .block_tokens = block_tokens};
  StoreOpenOptions options;
  options.access = StoreAccess::kCreate;
  options.defaults.direct = DirectMode::kOptional;
  options.record_bytes_hint = geometry.record_bytes();
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(parsed, options));
  ASSERT_OK_AND_ASSIGN(
      auto pool, BlockPool::Create(geometry, static_cast<uint32_t>(geometry.BlocksFor(kv.tokens))));
  ASSERT_OK_AND_ASSIGN(StoreChannel channel,
                       store->OpenChannel({.iodepth = 4, .memory = pool->memory()}));
  Manifest manifest;
  manifest.name = name;
  manifest.model_name = "sample";
  manifest.model.weights = Xxh3_128(AsBytes("weights"));
  for (uint64_t token = 0; token < kv.tokens; ++token) {
    manifest.token_ids.push_back(static_cast<int32_t>(500 + token));
  }
  Sequence sequence(*pool, {manifest.model.Fingerprint(), 5, RandomId()});
  ASSERT_OK(sequence.Reserve(kv.tokens));
  sequence.Advance(kv.tokens);
  kv.ForEach([&](const KvAt& at) {
    const KvCoordinate there = {
        static_cast<uint32_t>(at.layer), at.part, static_cast<uint32_t>(at.head),
        static_cast<uint32_t>(at.token % block_tokens), static_cast<uint32_t>(at.dim)};
    std::ranges::copy(
        kv.Element(at),
        sequence.payload(at.token / block_tokens).subspan(geometry.ElementOffset(there)).begin());
  });
  ASSERT_OK(Offload(*store, channel, sequence, manifest, {}));
}

// `kv` with only the first tokens.
inline SampleKv FirstTokens(SampleKv kv, uint64_t tokens) {
  SampleKv less{kv.shape, tokens, {}};
  less.bytes.resize(kv.bytes.size() / kv.tokens * tokens);
  less.ForEach(
      [&](const KvAt& at) { std::ranges::copy(kv.Element(at), less.Element(at).begin()); });
  return less;
}

}  // namespace kvbed
