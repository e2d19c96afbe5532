// Writes the golden records and the golden manifest, and prints the digests for golden_samples.h.
#include <cstdio>
#include <fstream>

#include "tests/offload/golden_samples.h"

namespace kvbed {
namespace {

bool Write(const std::string& name, Bytes bytes) {
  std::ofstream file(KVBED_GOLDEN_DIR "/record/" + name, std::ios::binary);
  file.write(AsText(bytes).data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file.good()) std::fprintf(stderr, "can't write %s\n", name.c_str());
  return file.good();
}

int Main() {
  bool ok = Write("manifest", AsBytes(EncodeManifest(SampleManifest())));
  for (const GoldenRecord& golden : GoldenRecords()) {
    SampleRecord record =
        MakeRecord(SampleHeader(golden.geometry, golden.tokens_used), golden.seed);
    std::printf("%s  %s\n", record.digest.ToHex().c_str(), golden.file.c_str());
    ok = Write(golden.file, record.bytes()) && ok;
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace kvbed

int main() { return kvbed::Main(); }
