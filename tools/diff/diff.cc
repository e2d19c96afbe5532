// kvbed diff: two KV dumps, of whatever engines, bit by bit.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/diff/diff_report.h"
#include "tools/diff/diff_side.h"
#include "tools/diff/dump_names.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/finding_text.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/store_access.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

// A stretch of tokens that stands for a block where there are no blocks.
constexpr uint64_t kUnitTokens = 16;
// Two mapped files are compared so many tokens at a time, so that an interrupt is seen.
constexpr uint64_t kPieceTokens = 4096;

struct DiffOptions {
  std::string a;
  std::string b;
  // Each once for both, or twice: for A, then for B.
  std::vector<std::string> key_patterns, layouts, block_tables, kv_shapes, kv_dtypes;
  std::optional<uint64_t> tokens;
  uint64_t kv_heads = 0;      // 0: not given
  uint64_t block_tokens = 0;  // 0: not given
  StoreOptions store;
  OutputOptions output;
};

Result<std::optional<std::string>> ForSide(const char* name, const std::vector<std::string>& values,
                                           size_t side) {
  if (values.size() > 2) {
    return Status::InvalidArgument(fmt::format(
        "{} may be given twice, for A and for B, and not {} times", name, values.size()));
  }
  if (values.empty()) return std::optional<std::string>();
  const std::string& value = values[std::min(side, values.size() - 1)];
  return value.empty() ? std::nullopt : std::optional(value);
}

Result<std::vector<uint64_t>> ParseKvShape(const std::string& text) {
  std::vector<uint64_t> shape;
  for (size_t at = 0;;) {
    uint64_t count = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), count);
    const auto stop = static_cast<size_t>(end - text.data());
    const bool more = stop < text.size() && (text[stop] == ',' || text[stop] == 'x');
    if (error != std::errc() || count == 0 || (stop < text.size() && !more)) {
      return Status::InvalidArgument(fmt::format(
          "--kv-shape takes the counts of the layout's dimensions, as 30,2,3,10,64, not '{}'",
          text));
    }
    shape.push_back(count);
    if (!more) return shape;
    at = stop + 1;
  }
}

Result<KvElement> ParseKvElement(const std::string& text) {
  std::string names;
  for (const KvElement element :
       {KvElement::kBf16, KvElement::kFp16, KvElement::kFp32, KvElement::kFp8E4m3,
        KvElement::kFp8E5m2, KvElement::kInt8, KvElement::kByte}) {
    if (text == KvElementName(element)) return element;
    names += (names.empty() ? "" : ", ") + std::string(KvElementName(element));
  }
  return Status::InvalidArgument(fmt::format("--kv-dtype takes {}, not '{}'", names, text));
}

// How the file of one side is read.
Result<DumpOptions> DumpOptionsFor(const DiffOptions& options, const std::string& source,
                                   size_t side) {
  DumpOptions dump;
  KVBED_ASSIGN_OR_RETURN(dump.key_pattern, ForSide("--key-pattern", options.key_patterns, side));
  KVBED_ASSIGN_OR_RETURN(dump.layout, ForSide("--layout", options.layouts, side));
  KVBED_ASSIGN_OR_RETURN(dump.block_table, ForSide("--block-table", options.block_tables, side));
  KVBED_ASSIGN_OR_RETURN(const auto shape, ForSide("--kv-shape", options.kv_shapes, side));
  KVBED_ASSIGN_OR_RETURN(const auto dtype, ForSide("--kv-dtype", options.kv_dtypes, side));
  if (shape && !source.ends_with(".safetensors")) {
    KVBED_ASSIGN_OR_RETURN(dump.shape, ParseKvShape(*shape));
  }
  if (dtype) {
    KVBED_ASSIGN_OR_RETURN(dump.element, ParseKvElement(*dtype));
  }
  if (options.kv_heads > 0) dump.kv_heads = options.kv_heads;
  if (options.block_tokens > 0) dump.block_tokens = options.block_tokens;
  dump.tokens = options.tokens;
  return dump;
}

// Why the two can't be compared; empty when they can.
std::vector<std::string> WhyNot(const DiffSide& a, const DiffSide& b,
                                const std::optional<uint64_t>& tokens) {
  std::vector<std::string> why;
  const auto check = [&](const char* what, uint64_t of_a, uint64_t of_b) {
    if (of_a != of_b) why.push_back(fmt::format("{} {} and {}", what, of_a, of_b));
  };
  check("layers", a.shape().layers, b.shape().layers);
  check("KV heads", a.shape().kv_heads, b.shape().kv_heads);
  check("head_dim", a.shape().head_dim, b.shape().head_dim);
  if (!ComparableElements(a.shape().element, b.shape().element)) {
    why.push_back(fmt::format("dtype {} and {}", KvElementName(a.shape().element),
                              KvElementName(b.shape().element)));
  }
  const uint64_t both = std::min(a.tokens(), b.tokens());
  if (!tokens && a.tokens() != b.tokens()) {
    why.push_back(fmt::format("tokens {} and {} (--tokens {} compares the first {})", a.tokens(),
                              b.tokens(), both, both));
  } else if (tokens && *tokens > both) {
    why.push_back(
        fmt::format("tokens {} and {}, fewer than --tokens {}", a.tokens(), b.tokens(), *tokens));
  }
  return why;
}

// Calls visit(a, b, first, last) with K and V of tokens [first, last), in order.
template <class Visit>
Status ForEachPiece(DiffSide& a, DiffSide& b, uint64_t tokens, const Visit& visit) {
  for (uint64_t token = 0; token < tokens;) {
    if (Interrupted()) return InterruptedStatus();
    KVBED_ASSIGN_OR_RETURN(const KvDump* const from_a, a.At(token));
    KVBED_ASSIGN_OR_RETURN(const KvDump* const from_b, b.At(token));
    const uint64_t end =
        std::min({from_a->end_token, from_b->end_token, tokens, token + kPieceTokens});
    visit(*from_a, *from_b, token, end);
    token = end;
  }
  return Status::Ok();
}

Result<DiffOutcome> Compare(DiffSide& a, DiffSide& b, uint64_t tokens) {
  KvDumpShape shape = a.shape();
  KvDiff diff(shape, ComparedAs(a.shape().element, b.shape().element));
  KVBED_RETURN_IF_ERROR(ForEachPiece(
      a, b, tokens, [&](const KvDump& from_a, const KvDump& from_b, uint64_t first, uint64_t last) {
        diff.Add(from_a, from_b, first, last);
      }));
  DiffOutcome outcome{tokens, diff.report(), std::nullopt};
  if (outcome.report.equal()) return outcome;
  const uint64_t blocks[2] = {a.block_tokens(), b.block_tokens()};
  const uint64_t unit = blocks[0] > 0 && blocks[1] > 0 ? std::min(blocks[0], blocks[1])
                        : blocks[0] + blocks[1] > 0    ? blocks[0] + blocks[1]
                                                       : kUnitTokens;
  KvDamageSearch search(shape, outcome.report, unit);
  if (!search.settled()) {
    KVBED_RETURN_IF_ERROR(
        ForEachPiece(a, b, tokens,
                     [&](const KvDump& from_a, const KvDump& from_b, uint64_t first,
                         uint64_t last) { search.Add(from_a, from_b, first, last); }));
  }
  outcome.damage = search.Finish();
  return outcome;
}

// One line on standard error, and the result with nulls in the JSON.
Result<int> NoOutcome(const DiffOptions& options, Json& json, const std::string& why,
                      ExitCode exit_code) {
  Complain(why);
  AddNoDiffOutcome(json, why);
  AddFailure(json, why);
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, "", json));
  return exit_code;
}

// A snapshot is of a model; a dump says nothing of one.
void AddModel(Json& json, const DiffSide& a, const DiffSide& b) {
  const Manifest* const manifest = a.manifest() != nullptr ? a.manifest() : b.manifest();
  if (manifest == nullptr) {
    SetNull(json, "model", "dumps don't say which model they are of");
    return;
  }
  json["model"] = {{"name", manifest->model_name},
                   {"fingerprint", manifest->model.Fingerprint().ToHex()},
                   {"weights_digest", manifest->model.weights.ToHex()},
                   {"config_digest", manifest->model.config.ToHex()},
                   {"tokenizer_digest", manifest->model.tokenizer.ToHex()},
                   {"dtype", std::string(DTypeName(manifest->geometry.dtype))},
                   {"layers", manifest->geometry.layers},
                   {"kv_heads", manifest->geometry.kv_heads},
                   {"head_dim", manifest->geometry.head_dim}};
}

Result<int> Run(const DiffOptions& options) {
  KeptPlaces kept;
  for (const std::string& source : {options.a, options.b}) {
    kept.push_back(NamesAStore(source) ? PathOfSpec(source) : source);
  }
  for (const std::string& table : options.block_tables) kept.push_back(table);
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kRefused, kept));
  Json json = MakeResult({"kvbed-diff/1", CommandLineOfThisProcess(), 0, UnixNs()});
  json["env"] = EnvironmentJson(ReadEnvironment({}));

  KVBED_ASSIGN_OR_RETURN(const DumpOptions dump_a, DumpOptionsFor(options, options.a, 0));
  KVBED_ASSIGN_OR_RETURN(const DumpOptions dump_b, DumpOptionsFor(options, options.b, 1));
  bool manifest_damage = false;
  auto a = DiffSide::Open(options.a, dump_a, options.store, manifest_damage);
  auto b = a.ok() ? DiffSide::Open(options.b, dump_b, options.store, manifest_damage) : a.status();
  if (!a.ok() || !b.ok()) {
    const Status& status = a.ok() ? b.status() : a.status();
    if (!manifest_damage) return status;
    SetNull(json, "model", status.message());
    return NoOutcome(options, json, status.message(), kExitFailedCheck);
  }
  json["a"] = DiffSideJson(*a);
  json["b"] = DiffSideJson(*b);
  AddModel(json, *a, *b);
  const std::vector<std::string> why = WhyNot(*a, *b, options.tokens);
  if (!why.empty()) {
    return NoOutcome(
        options, json,
        fmt::format("{} and {} can't be compared: {}", options.a, options.b, fmt::join(why, "; ")),
        kExitNoVerdict);
  }
  auto outcome = Compare(*a, *b, options.tokens.value_or(a->tokens()));
  if (!outcome.ok()) {
    const auto& finding = a->finding() ? a->finding() : b->finding();
    if (!finding) return outcome.status();
    json["findings"] = Json::array({FindingJson(*finding)});
    return NoOutcome(options, json,
                     fmt::format("{}: {}: {}", outcome.status().message(),
                                 CheckName(finding->check), finding->message),
                     kExitFailedCheck);
  }
  AddDiffOutcome(json, *outcome);
  const bool equal = outcome->report.equal();
  if (!equal) AddFailure(json, "they differ: " + FirstDifferenceText(outcome->report));
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, DiffText(*a, *b, *outcome), json));
  return equal ? kExitOk : kExitFailedCheck;
}

std::string DiffFooter() {
  std::string patterns;
  size_t column = 0;
  for (const std::string_view pattern : KnownKeyPatterns()) {
    column += pattern.size() + 2;
    const bool wrap = column > 96;
    if (wrap) column = pattern.size() + 4;
    patterns += (patterns.empty() ? "  " : wrap ? ",\n  " : ", ") + std::string(pattern);
  }
  return "Bits are compared and not values: a NaN equals the same NaN, and +0 is not -0. What is "
         "printed:\n"
         "the share that is identical, the first difference (in the order layer, K before V, KV "
         "head, token,\n"
         "dim), the largest |d| and its distance in ULP, each layer that differs, and the kind of "
         "damage\n"
         "where the bytes prove it: bit, byte_order, zeroed, torn, equals_other, shifted.\n\n"
         "A and B: a safetensors file, a raw file (--kv-shape), or a snapshot (slab:DIR#NAME). "
         "--key-pattern,\n"
         "--layout, --block-table, --kv-shape and --kv-dtype go for both files, or, given twice, "
         "for A and\n"
         "then for B ('' for none); a snapshot needs none of them. Names that are known:\n" +
         patterns +
         "\n\n"
         "Layout: a letter for each dimension of a tensor, slowest first: L layers, 2 K and V, H "
         "KV heads,\n"
         "T tokens, D dims of a head, N blocks of a paged cache (T is then a block's tokens), x "
         "the inner part\n"
         "of a split D, 1 of size 1, (HD) two in one dimension. Without --layout: [1, H, T, D] or "
         "[H, T, D] for\n"
         "K and V of a layer, L2HTD for a tensor of all.\n\n"
         "Exit codes: 0 equal; 1 they differ, or a snapshot's record fails its checks; 2 usage; 3 "
         "they can't be\n"
         "compared (other layers, heads, head_dim, dtype or tokens); 4 a file or store that is "
         "unusable.\n\n"
         "Examples:\n"
         "  kvbed diff before.safetensors after.safetensors\n"
         "  kvbed diff transformers.safetensors 'slab:/data/kv#s1'\n"
         "  kvbed diff transformers.safetensors vllm.safetensors --layout '' --layout 2NTHD \\\n"
         "    --key-pattern '' --key-pattern 'model.layers.{layer}.self_attn.attn' \\\n"
         "    --block-table 5,3,9 --tokens 40\n"
         "  kvbed diff a.bin b.bin --kv-shape 30,2,3,10,64 --kv-dtype bf16 --layout L2HTD\n"
         "docs/diff.md has how to dump from transformers, vLLM, LMCache and SGLang.";
}

}  // namespace

void AddDiffCommand(CommandLine& line) {
  DiffOptions& options = line.Own<DiffOptions>();
  OptionSet set =
      line.AddCommand("diff", "compare KV dumps of any engine, or snapshots, bit by bit");
  set.Group("What is compared");
  set.Required(set.Text("A", "A", "a dump's file, or a store's spec with #NAME", options.a));
  set.Required(set.Text("B", "B", "the same", options.b));
  set.Value(
      "--tokens", "N", "compare the first N tokens: rows beyond are ignored [all, of as many]",
      [&options](const std::string& text) {
        uint64_t tokens = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tokens);
        if (error != std::errc() || end != text.data() + text.size() || tokens == 0) {
          return Status::InvalidArgument(
              fmt::format("--tokens takes a number from 1 on, not '{}'", text));
        }
        options.tokens = tokens;
        return Status::Ok();
      });
  set.Group("How files are read (once for both, or twice: for A, then for B)");
  set.Texts("--key-pattern", "PATTERN",
            "names of the tensors, with {layer} for its number and {K|V} for what names K and V, "
            "e.g. 'layers.{layer}.{keys|values}' [see below]",
            options.key_patterns);
  set.Texts("--layout", "LETTERS", "what each dimension counts, e.g. L2HTD, 2NTHD [see below]",
            options.layouts);
  set.Texts("--block-table", "LIST|FILE",
            "blocks of the sequence in token order, for a layout with N: 5,3,9 or a file (JSON "
            "list or text)",
            options.block_tables);
  set.Texts("--kv-shape", "COUNTS",
            "a raw file's dimensions, e.g. 30,2,3,10,64; for files that aren't .safetensors",
            options.kv_shapes);
  set.Texts("--kv-dtype", "DTYPE",
            "a raw file's elements: bf16, fp16, fp32, fp8_e4m3, fp8_e5m2, int8, u8 [bf16]",
            options.kv_dtypes);
  set.Number("--kv-heads", "KV heads, where they share a dimension: (HD)", options.kv_heads, 1,
             uint64_t{1} << 20);
  set.Number("--block-tokens", "tokens of a block, where they share a dimension: (NT)",
             options.block_tokens, 1, uint64_t{1} << 32);
  set.Group("Store");
  AddStoreTuningOptions(set, options.store);
  AddOutputOptions(set, options.output);
  set.Footer(DiffFooter());
  line.SetFunction("diff", [&options] { return Run(options); });
}

}  // namespace kvbed
