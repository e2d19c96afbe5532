// bench with a model: real K and V, time to the first token by each way, and what breaks a row.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

class BenchModel : public testing::Test {
 protected:
  std::vector<nlohmann::json> RowsOf(std::vector<std::string> more) const {
    std::vector<std::string> arguments{
        "bench", "-m", "toy:8m?kv_heads=2", "-r", "3", "--no-fio", "--threads", "1", "-o", "jsonl"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandRun run = RunKvbed(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    std::vector<nlohmann::json> rows;
    for (size_t begin = 0, end; (end = run.out.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      rows.push_back(nlohmann::json::parse(run.out.substr(begin, end - begin)));
    }
    return rows;
  }
  const TempDir folder_;
};

TEST_F(BenchModel, ResumesWithoutPrefillAndItsPartsSumUp) {
  const auto rows = RowsOf({"-c", "256,1k", "--store", "slab:" + (folder_ / "kv"), "--store",
                            "files:" + (folder_ / "f")});
  ASSERT_EQ(rows.size(), 4);
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("status"), "ok") << row.at("reasons");
    EXPECT_EQ(row.at("cell").at("kv"), "real");
    EXPECT_EQ(row.at("verify").at("status"), "equal");
    EXPECT_EQ(row.at("restore").at("prefill_tokens_after_restore"), 0);
    const auto& restore = row.at("ttft").at("restore");
    const double sum = restore.at("lookup_ns").get<double>() + restore.at("read_ns").get<double>() +
                       restore.at("verify_ns").get<double>() +
                       restore.at("first_decode_ns").get<double>() -
                       restore.at("overlap_ns").get<double>();
    const double total = restore.at("total_ns").get<double>();
    EXPECT_NEAR(sum, total, 0.02 * total);
    const auto& recompute = row.at("ttft").at("recompute");
    EXPECT_EQ(recompute.at("given"), false);
    EXPECT_GT(recompute.at("prefill_ns").get<uint64_t>(), 0u);
    EXPECT_GT(row.at("ttft").at("in_memory").at("total_ns").get<uint64_t>(), 0u);
    EXPECT_GE(row.at("ttft").at("ram_copy").at("total_ns").get<uint64_t>(),
              row.at("ttft").at("in_memory").at("total_ns").get<uint64_t>() / 2);
    EXPECT_GT(row.at("break_even").at("bandwidth_gb_per_s").get<double>(), 0);
    EXPECT_FALSE(row.at("model").at("weights_digest").is_null());
  }
}

// 64 tokens fill blocks, so each sequence's first new token needs one more.
TEST_F(BenchModel, SeveralSequencesGoOnInOneDecodeCall) {
  std::vector<std::string> kernel_sets{"native"};
#ifdef KVBED_HAS_TORCH
  kernel_sets.push_back("torch");
#endif
  for (const std::string& kernels : kernel_sets) {
    const auto rows = RowsOf({"-c", "64", "--sequences", "5", "--kernels", kernels, "--store",
                              "slab:" + (folder_ / kernels)});
    ASSERT_EQ(rows.size(), 1);
    EXPECT_EQ(rows[0].at("status"), "ok") << rows[0].at("reasons");
    EXPECT_EQ(rows[0].at("cell").at("sequences"), 5);
    EXPECT_EQ(rows[0].at("restore").at("prefill_tokens_after_restore"), 0);
    const auto& ttft = rows[0].at("ttft");
    EXPECT_EQ(ttft.at("restore").at("n"), 3);
    const auto& recompute = ttft.at("recompute");
    // Of all five: a rate that is one sequence's.
    EXPECT_NEAR(recompute.at("tok_per_s").get<double>() * recompute.at("prefill_ns").get<double>(),
                5 * 64 * 1e9, 1e6);
    EXPECT_GT(rows[0].at("break_even").at("bandwidth_gb_per_s").get<double>(), 0);
  }
}

TEST_F(BenchModel, SeveralQueuesLeaveTheFirstTokenOut) {
  const auto rows = RowsOf({"-c", "64", "--numjobs", "2", "--store", "memory:"});
  ASSERT_EQ(rows.size(), 1);
  EXPECT_TRUE(rows[0].at("ttft").at("restore").is_null());
  EXPECT_EQ(rows[0].at("verify").at("status"), "equal");
}

}  // namespace
}  // namespace kvbed
