// What the report of `kvbed run` says of drift: the run's own kernels, the other set beside them,
// and one that could not be measured.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/run_report.h"

namespace kvbed {
namespace {

class RunDrift : public ::testing::Test {
 protected:
  RunDrift() {
    report_.header = {"kvbed-run/1", {"kvbed", "run"}, 1, 1'700'000'000'000'000'000};
    report_.model.name = "small";
    report_.model.geometry = {
        .layers = 1, .kv_heads = 1, .head_dim = 4, .dtype = DType::kBf16, .block_tokens = 16};
    report_.drift = Drift("native", 0);
  }

  // 4,000 elements, of which so many differ at decode positions.
  static DriftReport Drift(const std::string& kernels, uint64_t differing) {
    DriftReport drift;
    drift.kernels = kernels;
    drift.positions = 11;
    const DriftPart same = {.elements = 1000, .identical = 1000};
    drift.kv.layers.push_back({0, same, same, same, same});
    drift.kv.k_abs_max = 18.625;
    if (differing == 0) return drift;
    drift.kv.layers[0].k_decode.identical -= differing;
    drift.kv.layers[0].k_decode.max_abs = 0.1875;
    drift.kv.first_layer = 0;
    drift.kv.first_position = drift.kv.first_decode_position = 5;
    return drift;
  }
  void AddTorch(uint64_t differing) {
    KernelsDrift arm;
    arm.kernels = "torch";
    arm.drift = Drift("torch", differing);
    report_.drift_arms.push_back(std::move(arm));
  }
  void Has(const std::string& part) const {
    const std::string text = RunText(report_);
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in\n" << text;
  }
  bool SaysRounding() const { return RunText(report_).find("rounding") != std::string::npos; }

  RunReport report_;
};

TEST_F(RunDrift, OfNativeKernelsIsTheSameBitsAndNoRounding) {
  Has("            native    100 % of 4,000 elements identical\n"
      "                      the same bits: each row is summed in one order; the same 11 tokens");
  EXPECT_FALSE(SaysRounding());
  EXPECT_EQ(RunJson(report_)["drift"]["identical_pct"], 100);
  EXPECT_EQ(RunJson(report_)["drift_arms"], Json::array());
}

TEST_F(RunDrift, OfTorchStandsBesideItAndIsRounding) {
  AddTorch(400);
  Has("            native    100 % of 4,000 elements identical\n");
  Has("            torch     90.00 % of 4,000 elements identical; largest difference 0.188\n"
      "                      (largest |K| 18.6), from layer 0 and position 5 on; the same 11 "
      "tokens");
  EXPECT_TRUE(SaysRounding());
  const Json arm = RunJson(report_)["drift_arms"][0];
  EXPECT_EQ(arm["factor"], "kernels");
  EXPECT_EQ(arm["value"], "torch");
  EXPECT_EQ(arm["identical"], 3600);
  EXPECT_EQ(RunJson(report_)["drift"]["identical"], 4000) << "the run's own";
}

TEST_F(RunDrift, NearlyTheSameIsNeverShownAsTheSame) {
  report_.drift->kv.layers[0].k_prompt.elements += 1'000'000;
  report_.drift->kv.layers[0].k_prompt.identical += 999'999;
  report_.drift->kv.first_layer = 0;
  report_.drift->kv.first_position = 3;
  Has(">99.99 % of 1,004,000 elements identical");
  EXPECT_TRUE(SaysRounding());
}

TEST_F(RunDrift, AnotherSetThatCannotBeMeasuredIsAReasonAndNoFailure) {
  KernelsDrift arm;
  arm.kernels = "torch";
  arm.reason = "the weights need 5 GiB of memory, 1 GiB are there";
  report_.drift_arms.push_back(arm);
  Has("torch     not measured: the weights need 5 GiB of memory, 1 GiB are there");
  EXPECT_EQ(ExitCodeOf(report_), 0);
  const Json json = RunJson(report_);
  EXPECT_EQ(json["status"], "ok");
  EXPECT_EQ(json["drift_arms"][0]["status"], "skipped");
  EXPECT_EQ(json["drift_arms"][0]["value"], "torch");
  EXPECT_EQ(json["drift_arms"][0]["reason"], arm.reason);
}

}  // namespace
}  // namespace kvbed
