// Which operation of two passes over the same tokens differs first: of made-up outputs, and of the
// engine's own.
#include "engine/op_trace.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/engine/engine_harness.h"

namespace kvbed {
namespace {

// A row of one byte for each position from `first` on.
OpOutput Output(std::string_view op, std::optional<uint32_t> layer, uint64_t first,
                std::string_view bytes) {
  return {.op = op,
          .layer = layer,
          .first_position = first,
          .rows = bytes.size(),
          .columns = 1,
          .element_bytes = 1,
          .row_stride_bytes = 1,
          .data = AsBytes(bytes).data()};
}

TEST(OpTrace, NamesTheFirstOperationOfThePassAndThenThePosition) {
  OpTrace cached, recomputed;
  // Three positions at once and one alone, against all four at once.
  for (const auto& [op, layer] : {std::pair("norm", 0u), {"q_proj", 0u}, {"norm", 1u}}) {
    cached.Note(Output(op, layer, 0, "abc"));
  }
  cached.Note(Output("norm", 0, 3, "d"));
  cached.Note(Output("q_proj", 0, 3, "e"));
  cached.Note(Output("norm", 1, 3, "f"));
  recomputed.Note(Output("norm", 0, 0, "abcd"));
  recomputed.Note(Output("q_proj", 0, 0, "abxy"));
  recomputed.Note(Output("norm", 1, 0, "zzzz"));
  const OpComparison found = CompareOperations(cached, recomputed);
  EXPECT_EQ(found.operations, 3u);
  EXPECT_EQ(found.same_before, 1u);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->op, "q_proj");
  EXPECT_EQ(found.first->layer, 0u);
  EXPECT_EQ(found.first->position, 2u);
  EXPECT_EQ(found.first->cached_rows, 3u);
  EXPECT_EQ(found.first->recomputed_rows, 4u);
  EXPECT_EQ(found.first->differing, 2u);
  EXPECT_EQ(found.first->compared, 4u);
  EXPECT_FALSE(CompareOperations(cached, cached).first);
}

TEST(OpTrace, ComparesPositionsThatBothHave) {
  OpTrace cached, recomputed;
  cached.Note(Output("logits", {}, 2, "ab"));
  recomputed.Note(Output("logits", {}, 0, "xxay"));
  const OpComparison found = CompareOperations(cached, recomputed);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->position, 3u);
  EXPECT_EQ(found.first->compared, 2u);
}

class EngineOps : public OnEachKernelSet {};
INSTANTIATE_TEST_SUITE_P(Kernels, EngineOps, ::testing::ValuesIn(KernelSets()),
                         [](const auto& set) { return set.param; });

TEST_P(EngineOps, AreSeenInTheOrderOfThePassWithTheirShapes) {
  const ModelFiles model =
      OpenTestModel("toy:8m?vocab=300&hidden=96&layers=2&heads=6&kv_heads=2&mlp=160&seed=7");
  Engine engine = Open(model, {.dtype = DType::kBf16, .prefill_chunk = 8});
  OpTrace trace;
  engine.SetTap([&](const OpOutput& output) { trace.Note(output); });
  const auto ids = SeededIds(3, 13, model.config.vocab);
  Session session(engine, 16, 20);
  session.Prefill(ids);
  engine.SetTap({});
  session.Decode(1);
  std::vector<std::string> names;
  for (const OpTrace::Operation& one : trace.operations()) {
    names.push_back((one.layer ? std::to_string(*one.layer) + " " : "") + one.op + " " +
                    std::to_string(one.columns));
    if (one.op != "logits" && one.op != "final_norm") EXPECT_EQ(one.rows.size(), 13u) << one.op;
    EXPECT_EQ(one.rows.back().rows, one.layer ? 5u : one.rows.back().rows) << one.op;
  }
  const std::vector<std::string> layer = {"input_norm 96",
                                          "q_proj 96",
                                          "k_proj 32",
                                          "v_proj 32",
                                          "q_rotary 96",
                                          "k_rotary 32",
                                          "attention 96",
                                          "o_proj+residual 96",
                                          "post_attention_norm 96",
                                          "gate_proj+up_proj+silu 160",
                                          "down_proj+residual 96"};
  std::vector<std::string> expected = {"embedding 96"};
  for (const char* number : {"0 ", "1 "}) {
    for (const std::string& one : layer) expected.push_back(number + one);
  }
  expected.insert(expected.end(), {"final_norm 96", "logits 300"});
  EXPECT_EQ(names, expected);
}

// The same tokens in chunks of 5 and at once; and with another token at position 9.
TEST_P(EngineOps, OfTheNativeKernelsAreTheSameBitsAndAChangeIsFoundWhereItBegins) {
  const ModelFiles model =
      OpenTestModel("toy:8m?vocab=300&hidden=96&layers=2&heads=6&kv_heads=2&mlp=160&seed=7");
  auto ids = SeededIds(3, 23, model.config.vocab);
  const auto trace_of = [&](uint32_t chunk) {
    Engine engine = Open(model, {.dtype = DType::kBf16, .prefill_chunk = chunk});
    OpTrace trace;
    engine.SetTap([&](const OpOutput& output) { trace.Note(output); });
    Session session(engine, 16, 30);
    session.Prefill(ids);
    return trace;
  };
  const OpTrace in_chunks = trace_of(5), at_once = trace_of(64);
  const OpComparison same = CompareOperations(in_chunks, at_once);
  EXPECT_EQ(same.operations, 1u + 2 * 11 + 2);
  if (GetParam() == "native") EXPECT_FALSE(same.first);
  ids[9] = (ids[9] + 1) % 300;
  const OpComparison changed = CompareOperations(trace_of(64), at_once);
  ASSERT_TRUE(changed.first);
  EXPECT_EQ(changed.first->op, "embedding");
  EXPECT_EQ(changed.first->position, 9u);
  EXPECT_EQ(changed.first->differing, 1u);
}

}  // namespace
}  // namespace kvbed
