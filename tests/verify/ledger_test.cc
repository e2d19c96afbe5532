#include "verify/ledger.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

using nlohmann::json;

Digest128 Digest(std::string_view text) { return Xxh3_128(AsBytes(text)); }

Manifest SampleManifest() {
  Manifest m;
  m.name = "s1";
  m.store_uuid = Digest("store");
  m.model_name = "a-model.gguf";
  m.model = {Digest("weights"), Digest("config"), Digest("tokenizer")};
  m.rope_identity = 0x99aabbccddeeff00;
  m.geometry = {
      .layers = 2, .kv_heads = 1, .head_dim = 4, .dtype = DType::kFp32, .block_tokens = 5};
  m.sequence_id = 0xf122334455667788;
  m.cached_tokens = 7;
  m.prompt_tokens = 6;
  m.token_ids = {5, 4, 3, 2, 1, 0, 9, 8};
  m.sampler = {.temperature = 0.8, .top_p = 0.95, .top_k = 40, .seed = UINT64_MAX, .draws = 3};
  m.environment = {"torch", "AVX512", "torch 2.13.0", "bf16 as fp32", 2, 512};
  for (uint64_t i = 0; i < 2; ++i) {
    ManifestBlock block;
    block.id = {{m.model.Fingerprint(), m.sequence_id, i}, 10 + i};
    block.digest = Digest("block " + std::to_string(i));
    block.tokens_used = i == 0 ? 5 : 2;
    m.blocks.push_back(block);
  }
  return m;
}

KvDigest SampleKvDigest(uint64_t tokens) {
  KvDigest digest;
  digest.tokens = tokens;
  for (const char* part : {"k0", "v0", "k1", "v1"}) digest.parts.push_back(Digest(part));
  digest.total = Digest("total");
  return digest;
}

Ledger SampleLedger() {
  Ledger ledger = LedgerOf(SampleManifest());
  ledger.store_spec = "slab:/data/kv";
  ledger.kv_at_snapshot = SampleKvDigest(7);
  ledger.steps = {{8, Digest("logits 1")}, {33, Digest("logits 2")}};
  ledger.kv_at_end = SampleKvDigest(9);
  return ledger;
}

// The status of reading a ledger of which one thing was changed.
Status StatusAfter(const std::function<void(json&)>& change) {
  json document = json::parse(EncodeLedger(SampleLedger()));
  change(document);
  return DecodeLedger(document.dump(), "l.json").status();
}

TEST(Ledger, RoundTrip) {
  const Ledger ledger = SampleLedger();
  const std::string text = EncodeLedger(ledger);
  ASSERT_OK_AND_ASSIGN(const Ledger decoded, DecodeLedger(text, "l.json"));
  EXPECT_EQ(decoded, ledger);
  EXPECT_EQ(json::parse(text)["schema"], "kvbed-ledger/1");
}

TEST(Ledger, WithoutStepsAndPendingToken) {
  Ledger ledger = SampleLedger();
  ledger.pending_token.reset();
  ledger.steps.clear();
  ledger.kv_at_end = ledger.kv_at_snapshot;
  ASSERT_OK_AND_ASSIGN(const Ledger decoded, DecodeLedger(EncodeLedger(ledger), "l.json"));
  EXPECT_EQ(decoded, ledger);
}

TEST(Ledger, IsReadFromAFile) {
  const TempDir dir;
  std::ofstream(dir / "l.json") << EncodeLedger(SampleLedger());
  ASSERT_OK_AND_ASSIGN(const Ledger read, ReadLedger(dir / "l.json"));
  EXPECT_EQ(read, SampleLedger());
}

TEST(Ledger, FilesThatCanNotBeRead) {
  const TempDir dir;
  EXPECT_TRUE(
      FailsWith(ReadLedger(dir / "none.json").status(), StatusCode::kNotFound, "none.json"));
  EXPECT_TRUE(FailsWith(ReadLedger(dir.path()).status(), StatusCode::kIoError, "no regular file"));
  std::ofstream(dir / "empty.json");
  EXPECT_TRUE(FailsWith(ReadLedger(dir / "empty.json").status(), StatusCode::kCorruption,
                        "empty.json: is not JSON"));
}

TEST(Ledger, AFileAboveTheLimitIsNotRead) {
  const TempDir dir;
  const std::string path = dir / "huge.json";
  std::ofstream(path) << "{";
  std::filesystem::resize_file(path, kLedgerBytesMax + 1);  // sparse
  EXPECT_TRUE(FailsWith(ReadLedger(path).status(), StatusCode::kCorruption, "limit"));
}

TEST(Ledger, EveryMissingFieldIsNamed) {
  const json whole = json::parse(EncodeLedger(SampleLedger()));
  size_t tried = 0;
  const std::function<void(const json::json_pointer&)> visit = [&](const json::json_pointer& at) {
    if (!whole[at].is_object()) return;
    for (const auto& [name, value] : whole[at].items()) {
      const Status status = StatusAfter([&, field = name](json& d) { d[at].erase(field); });
      EXPECT_TRUE(FailsWith(status, StatusCode::kCorruption, name + " is missing")) << name;
      ++tried;
      visit(at / name);
    }
  };
  visit(json::json_pointer());
  EXPECT_GT(tried, 40u);
}

TEST(Ledger, EveryFieldOfAnotherTypeIsRefused) {
  const json whole = json::parse(EncodeLedger(SampleLedger())).flatten();
  for (const auto& [path, value] : whole.items()) {
    for (const json& other : {json(nullptr), json(true), json("text"), json(-1), json(1.5),
                              json::array(), json::object(), json(1e300)}) {
      // A number may be any number, a text any text, and the pending token none.
      const bool fits = other.type() == value.type() || (other.is_number() && value.is_number()) ||
                        (other.is_string() && value.is_string()) ||
                        (path == "/snapshot/pending_token" && other.is_null());
      if (fits) continue;
      const Status status =
          StatusAfter([&, at = path](json& d) { d[json::json_pointer(at)] = other; });
      EXPECT_EQ(status.code(), StatusCode::kCorruption) << path << " as " << other;
      EXPECT_NE(status.message().find("l.json"), std::string::npos);
    }
  }
}

TEST(Ledger, PartsThatDoNotFitEachOther) {
  const auto refused = [](const std::function<void(json&)>& change, std::string_view words) {
    return FailsWith(StatusAfter(change), StatusCode::kCorruption, words);
  };
  EXPECT_TRUE(refused([](json& d) { d["model"]["weights_digest"] = std::string(32, '0'); },
                      "model.fingerprint does not fit"));
  EXPECT_TRUE(refused([](json& d) { d["snapshot"]["cached_tokens"] = 11; }, "block_digests"));
  EXPECT_TRUE(
      refused([](json& d) { d["snapshot"]["cached_tokens"] = UINT64_MAX; }, "block_digests has 2"));
  EXPECT_TRUE(
      refused([](json& d) { d["snapshot"]["cached_tokens"] = 8; }, "kv_at_snapshot.tokens"));
  EXPECT_TRUE(refused([](json& d) { d["kv_at_end"]["tokens"] = 8; }, "kv_at_end.tokens"));
  EXPECT_TRUE(refused([](json& d) { d["steps"].erase(0); }, "kv_at_end.tokens"));
  EXPECT_TRUE(refused([](json& d) { d["snapshot"]["pending_token"] = nullptr; }, "pending_token"));
  EXPECT_TRUE(refused([](json& d) { d["kv_at_end"]["parts"].erase(0); }, "two digests a layer"));
  EXPECT_TRUE(refused([](json& d) { d["geometry"]["layers"] = 3; }, "two digests a layer"));
  EXPECT_TRUE(refused([](json& d) { d["geometry"]["layers"] = 0; }, "geometry.layers"));
  EXPECT_TRUE(refused([](json& d) { d["geometry"]["layers"] = 1ull << 40; }, "geometry.layers"));
  EXPECT_TRUE(refused([](json& d) { d["geometry"]["dtype"] = "fp16"; }, "geometry.dtype"));
  EXPECT_TRUE(refused([](json& d) { d["steps"][1]["token"] = 1ull << 31; }, "steps[1].token"));
  EXPECT_TRUE(refused([](json& d) { d["steps"][0]["logits"] = "xyz"; }, "steps[0].logits"));
}

TEST(Ledger, AnotherSchemaIsNotThisOne) {
  EXPECT_TRUE(FailsWith(StatusAfter([](json& d) { d["schema"] = "kvbed-ledger/2"; }),
                        StatusCode::kNotSupported, "kvbed-ledger/2"));
  EXPECT_TRUE(FailsWith(StatusAfter([](json& d) { d["schema"] = "kvbed-run/1"; }),
                        StatusCode::kCorruption, "kvbed-run/1"));
}

TEST(Ledger, WhatIsNoJsonIsRefused) {
  const std::string text = EncodeLedger(SampleLedger());
  for (size_t size = 0; size + 1 < text.size(); size += 7) {
    EXPECT_TRUE(
        FailsWith(DecodeLedger(text.substr(0, size), "l.json").status(), StatusCode::kCorruption));
  }
  for (const char* bad : {"null", "[]", "1", "\"kvbed-ledger/1\"", "{}", "\xff\xfe"}) {
    EXPECT_TRUE(FailsWith(DecodeLedger(bad, "l.json").status(), StatusCode::kCorruption)) << bad;
  }
  const std::string deep = "{\"schema\":" + std::string(200000, '[');
  EXPECT_TRUE(FailsWith(DecodeLedger(deep, "l.json").status(), StatusCode::kCorruption));
  const std::string closed = std::string(20000, '[') + std::string(20000, ']');
  EXPECT_TRUE(FailsWith(DecodeLedger(closed, "l.json").status(), StatusCode::kCorruption));
}

TEST(Ledger, FlippedBytesNeverCrash) {
  std::mt19937_64 random(4);
  const std::string good = EncodeLedger(SampleLedger());
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int i = 0; i < 1 + round % 4; ++i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto ledger = DecodeLedger(text, "l.json");
    EXPECT_TRUE(ledger.ok() || ledger.status().code() == StatusCode::kCorruption ||
                ledger.status().code() == StatusCode::kNotSupported);
  }
}

TEST(Ledger, ANameThatIsNoUtf8DoesNotBreakTheFile) {
  Ledger ledger = SampleLedger();
  ledger.model_name = "model-\xff.gguf";
  EXPECT_OK(DecodeLedger(EncodeLedger(ledger), "l.json"));
}

TEST(MatchLedger, TheSnapshotThatItWasWrittenFor) {
  EXPECT_EQ(MatchLedger(SampleLedger(), SampleManifest()), LedgerMatch{});
}

TEST(MatchLedger, AnotherModelOrSequenceGivesNoVerdict) {
  const auto foreign = [](const std::function<void(Manifest&)>& change) {
    Manifest manifest = SampleManifest();
    change(manifest);
    const LedgerMatch match = MatchLedger(SampleLedger(), manifest);
    EXPECT_TRUE(match.findings.empty());
    return match.foreign;
  };
  EXPECT_EQ(foreign([](auto& m) { m.model.weights = Digest("x"); }), "model (weights)");
  EXPECT_EQ(foreign([](auto& m) { m.model.config = Digest("x"); }), "model (config)");
  EXPECT_EQ(foreign([](auto& m) { m.model.tokenizer = Digest("x"); }), "tokenizer");
  EXPECT_EQ(foreign([](auto& m) { m.rope_identity = 1; }), "RoPE");
  EXPECT_EQ(foreign([](auto& m) { m.geometry.dtype = DType::kBf16; }), "KV geometry");
  EXPECT_EQ(foreign([](auto& m) { m.sequence_id = 1; }), "sequence");
}

// The same sequence: a store that went back to an older state, consistent in itself.
TEST(MatchLedger, AnotherStateOfTheSequenceIsAFinding) {
  const auto finding = [](const std::function<void(Manifest&)>& change) {
    Manifest manifest = SampleManifest();
    change(manifest);
    const LedgerMatch match = MatchLedger(SampleLedger(), manifest);
    EXPECT_TRUE(match.foreign.empty());
    EXPECT_EQ(match.findings.size(), 1u);
    return match.findings.at(0);
  };
  EXPECT_EQ(finding([](auto& m) { m.cached_tokens = 6; }).actual, "6 tokens");
  EXPECT_EQ(finding([](auto& m) { m.token_ids.back() = 7; }).message,
            "the snapshot's pending token is not the ledger's");
  const Finding block = finding([](auto& m) { m.blocks[1].digest = Digest("stale"); });
  EXPECT_EQ(block.check, Check::kManifest);
  EXPECT_EQ(block.first_token, 5u);
  EXPECT_EQ(block.expected, Digest("block 1").ToHex());
}

}  // namespace
}  // namespace kvbed
