// The parts that all result files share: their names are fixed, and what is not known is null with
// a reason.
#include "tools/result_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/json_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/bench_shape.h"
#include "tools/environment.h"

namespace kvbed {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ResultJson, BeginsAsEveryResultDoes) {
  Json result = MakeResult({"kvbed-test/1", {"kvbed", "test"}, 7, 1'700'000'000'123'000'000});
  EXPECT_TRUE(HasNames(result, {"schema", "kvbed_version", "argv", "seed", "started_at", "env",
                                "model", "status", "reasons"}));
  EXPECT_EQ(result["started_at"], "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(result["status"], "ok");
  AddReason(result, "noisy");
  EXPECT_EQ(result["status"], "ok");
  AddFailure(result, "wrong");
  EXPECT_EQ(result["status"], "failed");
  EXPECT_EQ(result["reasons"], (Json{"noisy", "wrong"}));
}

TEST(ResultJson, WhatIsNotKnownIsNullWithAReasonAndNever0) {
  Json json;
  SetOrReason(json, "speed", std::optional<double>(), "no disk");
  SetOrReason(json, "bytes", std::optional<uint64_t>(0), "unused");
  EXPECT_EQ(JsonLine(json), R"({"speed":null,"speed_reason":"no disk","bytes":0})");
  EXPECT_TRUE(NullsHaveReasons(json));
  json["speed_reason"] = nullptr;
  EXPECT_FALSE(NullsHaveReasons(json));
}

TEST(ResultJson, AModelHasTheFixedNames) {
  ASSERT_OK_AND_ASSIGN(const BenchShape shape, FindBenchShape("smollm2-135m"));
  ModelDescription model;
  model.name = shape.name;
  model.config = shape.config;
  model.geometry = shape.Geometry(DType::kBf16, 16);
  model.absent_reason = "a shape";
  const Json json = ModelJson(model);
  EXPECT_TRUE(HasNames(
      json, {"name", "fingerprint", "weights_digest", "config_digest", "tokenizer_digest", "dtype",
             "kernels", "layers", "heads", "kv_heads", "head_dim", "hidden", "vocab", "rope_theta",
             "weight_bytes", "kv_bytes_per_token", "kv_bytes_per_token_formula"}));
  EXPECT_TRUE(NullsHaveReasons(json));
  EXPECT_EQ(json["kv_bytes_per_token"], 23040);
  EXPECT_EQ(json["kv_bytes_per_token_formula"], 23040);
}

TEST(ResultJson, AStoreHasTheFixedNames) {
  const Json json = StoreJson(StoreInfo{}, std::nullopt);
  EXPECT_TRUE(
      HasNames(json, {"spec", "kind", "uuid", "ioengine", "ioengine_reason", "direct", "fs_type",
                      "alignment_bytes", "record_bytes", "iodepth_requested", "iodepth_achieved",
                      "registered_buffers", "registered_files", "ring_flags", "huge_page_bytes"}));
  EXPECT_EQ(json["record_bytes"], nullptr);
  EXPECT_TRUE(NullsHaveReasons(json));
}

TEST(ResultJson, AFindingHasTheFixedNames) {
  Finding finding;
  finding.check = Check::kHeaderChecksum;
  finding.kv = KvPart::kV;
  finding.damage = Damage::kEqualsOther;
  const Json json = FindingJson(finding);
  EXPECT_TRUE(HasNames(json, {"check", "id", "layer", "kv", "head", "token", "dim", "first_token",
                              "token_count", "byte_offset", "place", "expected", "actual", "damage",
                              "other_id", "reread", "message"}));
  EXPECT_EQ(json["check"], "header_checksum");
  EXPECT_EQ(json["kv"], "V");
  EXPECT_EQ(json["damage"], "equals_other");
  EXPECT_EQ(json["layer"], nullptr);
}

TEST(ResultJson, TextThatIsNoUtf8DoesNotEndTheProgram) {
  Json json;
  json["text"] = std::string("\xff");
  EXPECT_EQ(JsonLine(json), "{\"text\":\"\xEF\xBF\xBD\"}");
}

TEST(ResultJson, FilesAreReplacedAndLinesAppended) {
  const TempDir dir;
  Json json;
  json["a"] = 1;
  ASSERT_OK(WriteJsonFile(dir / "one", json));
  ASSERT_OK(WriteJsonFile(dir / "one", json));
  EXPECT_EQ(Contents(dir / "one"), "{\n  \"a\": 1\n}\n");
  ASSERT_OK(AppendJsonLine(dir / "lines", json));
  ASSERT_OK(AppendJsonLine(dir / "lines", json));
  EXPECT_EQ(Contents(dir / "lines"), "{\"a\":1}\n{\"a\":1}\n");
  EXPECT_TRUE(FailsWith(WriteJsonFile(dir / "no/such/folder", json), StatusCode::kNotFound,
                        "no/such/folder"));
}

TEST(Environment, IsReadOnThisMachineWithAReasonForEachGap) {
  const TempDir dir;
  EnvironmentQuery query;
  query.path = dir / "store/not/made/yet";
  query.seed = 9;
  const Json json = EnvironmentJson(ReadEnvironment(query));
  EXPECT_TRUE(HasNames(json, {"cpu", "cores", "numa_nodes", "memory_bytes", "kernel", "fs_type",
                              "mount_options", "block_devices", "free_bytes", "container", "vm",
                              "governor", "huge_page_bytes", "libraries", "git_commit",
                              "command_line", "seed", "model_fingerprint", "ld_preload"}));
  EXPECT_TRUE(NullsHaveReasons(json));
  EXPECT_TRUE(json["fs_type"].is_string());
  EXPECT_GT(json["free_bytes"], 0);
  EXPECT_EQ(json["seed"], 9);
  for (const Json& disk : json["block_devices"]) {
    EXPECT_TRUE(HasNames(disk, {"name", "model", "firmware", "link", "temperature_c", "scheduler",
                                "max_sectors_kb", "write_cache"}));
  }
}

TEST(Environment, SaysOfAnEmptySystemThatNothingIsKnown) {
  const TempDir dir;
  EnvironmentQuery query;
  query.path = dir.path();
  const Json json =
      EnvironmentJson(ReadEnvironment(query, {.proc = dir / "proc", .sys = dir / "sys"}));
  EXPECT_TRUE(NullsHaveReasons(json));
  for (const char* name :
       {"cores", "numa_nodes", "memory_bytes", "mount_options", "block_devices", "governor"}) {
    EXPECT_EQ(json[name], nullptr) << name;
  }
  EXPECT_TRUE(json["fs_type"].is_string()) << "asked of the filesystem itself";
}

}  // namespace
}  // namespace kvbed
