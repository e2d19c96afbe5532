#include "tools/common_options.h"

#include <fmt/format.h>

#include "backends/byte_size.h"
#include "tools/option_values.h"

namespace kvbed {
namespace {

Result<OutputFormat> ParseFormat(const std::string& text) {
  if (text == "text") return OutputFormat::kText;
  if (text == "md") return OutputFormat::kMarkdown;
  if (text == "csv") return OutputFormat::kCsv;
  if (text == "json") return OutputFormat::kJson;
  if (text == "jsonl") return OutputFormat::kJsonLines;
  return Status::InvalidArgument(
      fmt::format("--output takes one of text, md, csv, json, jsonl, not '{}'", text));
}

// A parser of sizes whose refusals name the option.
auto SizeOf(std::string option) {
  return [option](const std::string& text) { return ParseByteSize(text, option); };
}

}  // namespace

SamplerState InitialSampler(const SamplingOptions& options) {
  return {options.temperature, options.top_p, options.top_k, options.seed, 0};
}

void AddModelSourceOptions(OptionSet& set, ModelOptions& options) {
  set.Group("Model");
  set.Required(set.Text("-m,--model", "MODEL",
                        "GGUF file, Hugging Face directory, or toy:8m, toy:62m (no files needed)",
                        options.model));
  set.Parsed("--dtype", "bf16|fp32", "dtype of weights, activations and KV [bf16]", options.dtype,
             ParseDType);
  set.Text("--isa", "NAME",
           "instruction set of the native kernels: avx2, avx512, avx512_bf16, amx_bf16, neon [the "
           "fastest]",
           options.isa);
}

void AddModelOptions(OptionSet& set, ModelOptions& options) {
  AddModelSourceOptions(set, options);
  set.Text("--kernels", "native|torch",
           "set of compute kernels: kvbed's own, or libtorch's, the usual ones, which recompute a "
           "cache to other bits [native where the CPU has AVX2, AVX-512 or NEON]",
           options.kernels);
  set.Number("--threads", "compute threads [as many as this process may run on]", options.threads,
             1, 1024);
  set.Number("--prefill-chunk", "tokens of one prefill call [512]", options.prefill_chunk, 1,
             1 << 20);
}

void AddPoolOptions(OptionSet& set, PoolOptions& options) {
  set.Group("KV pool");
  set.Number("--block-tokens", "tokens of one KV block [16]", options.block_tokens, 1, 1 << 16);
  set.Parsed("--pool-bytes", "SIZE",
             "memory for KV records, as in 1GiB (k, M, G are powers of 1000) [what the run needs]",
             options.pool_bytes, SizeOf("--pool-bytes"));
}

void AddPromptSourceOptions(OptionSet& set, PromptOptions& options) {
  set.Group("Prompt");
  const auto prompt = set.Text("-p,--prompt", "TEXT", "the prompt's text", options.prompt);
  const auto file =
      set.Text("-f,--prompt-file", "FILE",
               "file with the prompt; any bytes, no end of line is cut; - is standard input",
               options.prompt_file);
  const auto ids = set.Parsed("--prompt-ids", "IDS", "the prompt as token ids: 504,3575,282",
                              options.prompt_ids, ParseTokenIds);
  set.Exclude(prompt, file);
  set.Exclude(prompt, ids);
  set.Exclude(file, ids);
  set.Flag("--parse-special", options.parse_special,
           "turn the text of special tokens into their ids [off: text is text]");
}

void AddPromptOptions(OptionSet& set, PromptOptions& options) {
  AddPromptSourceOptions(set, options);
  set.Parsed("-c,--ctx", "N", "cut or repeat the prompt to N tokens, as in 4k (k = 1024)",
             options.ctx, ParseTokenCount);
}

void AddSamplingOptions(OptionSet& set, SamplingOptions& options) {
  set.Group("Sampling");
  set.Number("--temperature", "above 0: sample with it [0: greedy]", options.temperature, 0, 100);
  set.Number("--top-p", "sample from the likeliest tokens of this mass [1]", options.top_p, 1e-9,
             1);
  set.Number("--top-k", "sample from the N likeliest tokens [0: all]", options.top_k, 0, 1 << 30);
  set.Number("--seed", "seed of everything random [1]", options.seed, 0, UINT64_MAX);
}

void AddStoreTuningOptions(OptionSet& set, StoreOptions& options) {
  set.Group("Store");
  set.Number("--iodepth", "records in flight [16]", options.iodepth, 1, 4096);
  set.OneOf("--ioengine", "I/O engine; auto takes io_uring where it is allowed [auto]",
            options.ioengine, {"auto", "io_uring", "psync"});
  set.OneOf("--direct", "direct I/O, past the page cache [required]", options.direct,
            {"required", "optional", "off"});
  set.Parsed("--capacity", "SIZE",
             "most that the store may take, as in 10GiB [0: free space less a reserve]",
             options.capacity, SizeOf("--capacity"));
  set.OneOf("--sync",
            "none publishes without waiting for the data; files: has commit and block too [full]",
            options.sync, {"full", "none", "commit", "block"});
}

OptionHandle AddStoreOptions(OptionSet& set, StoreOptions& options, StoreKinds kinds) {
  set.Group("Store");
  const auto store =
      set.Text("-s,--store", "SPEC",
               kinds == StoreKinds::kAny ? "slab:DIR, rocksdb:DIR, files:DIR, memory:, "
                                           "plugin:LIBRARY or exec:COMMAND; options of its own as "
                                           "in 'rocksdb:DIR?wal=on&layout=index'"
                                         : "slab:DIR, rocksdb:DIR, files:DIR, plugin:LIBRARY or "
                                           "exec:COMMAND; options of its own as in "
                                           "'rocksdb:DIR?wal=on&layout=index'",
               options.spec);
  AddStoreTuningOptions(set, options);
  return store;
}

void AddOutputOptions(OptionSet& set, OutputOptions& options, TableFormats formats) {
  set.Group("Output");
  const bool tables = formats == TableFormats::kTaken;
  set.Parsed("-o,--output", tables ? "text|md|csv|json|jsonl" : "text|json|jsonl",
             fmt::format("format on standard output [{}]",
                         options.format == OutputFormat::kMarkdown ? "md" : "text"),
             options.format, ParseFormat);
  set.Text("--json", "FILE", "write the result as JSON beside the text; replaces FILE",
           options.json_file);
}

void AddNewTokensOption(OptionSet& set, uint64_t& new_tokens) {
  set.Parsed("-n,--new-tokens", "N", fmt::format("new tokens to generate [{}]", new_tokens),
             new_tokens, ParseTokenCount);
}

}  // namespace kvbed
