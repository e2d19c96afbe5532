#include "tools/plugin_host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "backends/store_plugin.h"
#include "backends/store_protocol.h"
#include "offload/bytes.h"
#include "offload/status.h"
#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/write_all.h"

namespace kvbed {
namespace {

using PluginJson = nlohmann::json;

static_assert(KVBED_STORE_ID_BYTES == kRecordIdBytes);

StatusCode CodeOfPlugin(kvbed_store_status status) {
  switch (status) {
    case KVBED_STORE_OK: return StatusCode::kOk;
    case KVBED_STORE_NOT_FOUND: return StatusCode::kNotFound;
    case KVBED_STORE_IO_ERROR: return StatusCode::kIoError;
    case KVBED_STORE_CORRUPTION: return StatusCode::kCorruption;
    case KVBED_STORE_INVALID_ARGUMENT: return StatusCode::kInvalidArgument;
    case KVBED_STORE_OUT_OF_SPACE: return StatusCode::kOutOfSpace;
    case KVBED_STORE_NOT_SUPPORTED: return StatusCode::kNotSupported;
  }
  return StatusCode::kIoError;
}

// A plug-in's message buffer, of which it may have forgotten the 0.
class PluginMessage {
 public:
  char* data() { return text_.data(); }
  std::string text() const {
    return std::string(text_.data(), ::strnlen(text_.data(), text_.size()));
  }

 private:
  std::array<char, KVBED_STORE_MESSAGE_BYTES> text_{};
};

void SayStatus(PluginJson& answer, kvbed_store_status status, const std::string& message) {
  const StatusCode code = CodeOfPlugin(status);
  const bool known = status >= KVBED_STORE_OK && status <= KVBED_STORE_NOT_SUPPORTED;
  answer["status"] = ProtocolStatusName(code);
  if (!known) answer["message"] = fmt::format("a status of {}", static_cast<int>(status));
  if (known && !message.empty()) answer["message"] = message;
}

class PluginHost {
 public:
  PluginHost(std::string library, const std::vector<std::string>& options, int answers)
      : library_(std::move(library)), answers_(answers) {
    for (const std::string& option : options) {
      const size_t equals = std::min(option.find('='), option.size());
      options_.emplace_back(option.substr(0, equals),
                            option.substr(std::min(equals + 1, option.size())));
    }
  }

  // False when there are no more questions.
  bool Answer(const std::string& line) {
    const auto question = PluginJson::parse(line, nullptr, false);
    if (!question.is_object()) return false;
    PluginJson answer = {{"call", question.value("call", uint64_t{0})}};
    const std::string verb = question.value("verb", std::string());
    Serve(verb, question, answer);
    const std::string text =
        answer.dump(-1, ' ', false, PluginJson::error_handler_t::replace) + '\n';
    return WriteAll(answers_, AsBytes(text), "answer").ok() && verb != "close";
  }

 private:
  void Serve(const std::string& verb, const PluginJson& question, PluginJson& answer);
  kvbed_store_status Open(const PluginJson& question, PluginJson& answer, std::string& message);
  kvbed_store_status Load(std::string& message);
  kvbed_store_status MapWindow(const PluginJson& window, std::string& message);
  void DescribePlugin(PluginJson& answer) const;
  MutableBytes InWindow(const PluginJson& place) const;

  using BatchVerb = kvbed_store_status (*)(kvbed_store*, kvbed_store_record*, size_t, char*);
  void ServeBatch(BatchVerb verb, std::vector<kvbed_store_record> records, bool get,
                  PluginJson& answer);
  std::vector<kvbed_store_record> RecordsOf(const PluginJson& question) const;
  static std::vector<kvbed_store_record> IdsOf(const PluginJson& question);
  void ServeList(const PluginJson& question, PluginJson& answer);
  void ServeManifestList(const PluginJson& question, PluginJson& answer);

  const std::string library_;
  const int answers_;
  std::vector<std::pair<std::string, std::string>> options_;
  const kvbed_store_plugin* plugin_ = nullptr;
  kvbed_store* store_ = nullptr;
  MutableBytes window_;
};

kvbed_store_status PluginHost::Load(std::string& message) {
  // A name without a slash would be looked for among the system's libraries.
  const std::string path = library_.find('/') == std::string::npos ? "./" + library_ : library_;
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const error = ::dlerror();
    message = error == nullptr ? "it can't be loaded" : error;
    return KVBED_STORE_IO_ERROR;
  }
  constexpr const char* kSymbol = "kvbed_store_plugin_v1";
  void* const symbol = ::dlsym(handle, kSymbol);
  if (symbol == nullptr) {
    message = fmt::format("{} has no symbol {}: it is no plug-in, or one of another version",
                          library_, kSymbol);
    return KVBED_STORE_NOT_SUPPORTED;
  }
  plugin_ = reinterpret_cast<decltype(&kvbed_store_plugin_v1)>(symbol)();
  if (plugin_ == nullptr) {
    message = fmt::format("{} gives no plug-in", kSymbol);
    return KVBED_STORE_NOT_SUPPORTED;
  }
  if (plugin_->version != KVBED_STORE_PLUGIN_VERSION) {
    message = fmt::format("it was built for version {} of the plug-in interface, this kvbed has {}",
                          plugin_->version, KVBED_STORE_PLUGIN_VERSION);
    return KVBED_STORE_NOT_SUPPORTED;
  }
  if ((plugin_->flags & ~KVBED_STORE_LOSSY) != 0) {
    message = fmt::format("unknown flags {:#x}", plugin_->flags);
    return KVBED_STORE_NOT_SUPPORTED;
  }
  if (plugin_->open == nullptr || plugin_->put == nullptr || plugin_->get == nullptr ||
      plugin_->close == nullptr) {
    message = "open, put, get and close are required, and one of them is NULL";
    return KVBED_STORE_NOT_SUPPORTED;
  }
  const int manifest_verbs =
      (plugin_->commit_manifest != nullptr) + (plugin_->read_manifest != nullptr) +
      (plugin_->list_manifests != nullptr) + (plugin_->remove_manifest != nullptr);
  if (manifest_verbs != 0 && manifest_verbs != 4) {
    message = "of the four verbs for manifests some are NULL and some aren't";
    return KVBED_STORE_NOT_SUPPORTED;
  }
  return KVBED_STORE_OK;
}

kvbed_store_status PluginHost::MapWindow(const PluginJson& window, std::string& message) {
  const std::string path = window.value("path", std::string());
  const uint64_t size_bytes = window.value("bytes", uint64_t{0});
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const at =
      fd < 0 ? MAP_FAILED : ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    message = fmt::format("map {}: {}", path, std::strerror(errno));
    if (fd >= 0) ::close(fd);
    return KVBED_STORE_IO_ERROR;
  }
  ::close(fd);
  window_ = {static_cast<std::byte*>(at), size_bytes};
  return KVBED_STORE_OK;
}

void PluginHost::DescribePlugin(PluginJson& answer) const {
  answer["version"] = kStoreProtocolVersion;
  if (plugin_->name != nullptr) answer["name"] = plugin_->name;
  answer["lossy"] = (plugin_->flags & KVBED_STORE_LOSSY) != 0;
  auto capabilities = PluginJson::array();
  if (plugin_->flush != nullptr) capabilities.push_back("flush");
  if (plugin_->exists != nullptr) capabilities.push_back("exists");
  if (plugin_->remove != nullptr) capabilities.push_back("remove");
  if (plugin_->list != nullptr) capabilities.push_back("list");
  if (plugin_->commit_manifest != nullptr) capabilities.push_back("manifests");
  answer["capabilities"] = std::move(capabilities);
}

kvbed_store_status PluginHost::Open(const PluginJson& question, PluginJson& answer,
                                    std::string& message) {
  if (const auto loaded = Load(message); loaded != KVBED_STORE_OK) return loaded;
  if (const auto mapped = MapWindow(question.at("window"), message); mapped != KVBED_STORE_OK) {
    return mapped;
  }
  DescribePlugin(answer);
  const std::string access = question.value("access", std::string());
  std::vector<kvbed_store_option> options;
  for (const auto& [key, value] : options_) options.push_back({key.c_str(), value.c_str()});
  const kvbed_store_open how{.access = access == "create"  ? KVBED_STORE_CREATE
                                       : access == "write" ? KVBED_STORE_WRITE
                                                           : KVBED_STORE_READ,
                             .options = options.data(),
                             .option_count = options.size()};
  PluginMessage said;
  const kvbed_store_status status = plugin_->open(&how, &store_, said.data());
  message = said.text();
  if (status != KVBED_STORE_OK || store_ != nullptr) return status;
  message = "open returned no store";
  return KVBED_STORE_IO_ERROR;
}

MutableBytes PluginHost::InWindow(const PluginJson& place) const {
  const uint64_t offset = place.at("offset").get<uint64_t>();
  const uint64_t bytes = place.at("bytes").get<uint64_t>();
  KVBED_CHECK(offset <= window_.size() && bytes <= window_.size() - offset);
  return window_.subspan(offset, bytes);
}

std::vector<kvbed_store_record> PluginHost::RecordsOf(const PluginJson& question) const {
  std::vector<kvbed_store_record> records;
  for (const PluginJson& one : question.at("records")) {
    kvbed_store_record& record = records.emplace_back();
    const auto id = FromHex(one.at("id").get<std::string>());
    KVBED_CHECK(id && id->size() == sizeof(record.id));
    std::memcpy(record.id, id->data(), sizeof(record.id));
    const MutableBytes bytes = InWindow(one);
    record.data = bytes.data();
    record.bytes = bytes.size();
  }
  return records;
}

std::vector<kvbed_store_record> PluginHost::IdsOf(const PluginJson& question) {
  std::vector<kvbed_store_record> records;
  for (const PluginJson& one : question.at("ids")) {
    kvbed_store_record& record = records.emplace_back();
    const auto id = FromHex(one.get<std::string>());
    KVBED_CHECK(id && id->size() == sizeof(record.id));
    std::memcpy(record.id, id->data(), sizeof(record.id));
  }
  return records;
}

void PluginHost::ServeBatch(BatchVerb verb, std::vector<kvbed_store_record> records, bool get,
                            PluginJson& answer) {
  PluginMessage said;
  const kvbed_store_status status = verb(store_, records.data(), records.size(), said.data());
  if (status != KVBED_STORE_OK) return SayStatus(answer, status, said.text());
  auto results = PluginJson::array();
  for (const kvbed_store_record& record : records) {
    PluginJson result;
    SayStatus(result, record.status,
              std::string(record.message, ::strnlen(record.message, sizeof(record.message))));
    if (get && record.status == KVBED_STORE_OK) result["bytes"] = record.stored_bytes;
    results.push_back(std::move(result));
  }
  answer["results"] = std::move(results);
}

void PluginHost::ServeList(const PluginJson& question, PluginJson& answer) {
  const size_t most = question.at("most").get<size_t>();
  std::optional<std::string> after;
  if (question.at("after").is_string()) after = FromHex(question["after"].get<std::string>());
  std::vector<uint8_t> ids(most * KVBED_STORE_ID_BYTES);
  size_t count = 0;
  PluginMessage said;
  const kvbed_store_status status =
      plugin_->list(store_, after ? reinterpret_cast<const uint8_t*>(after->data()) : nullptr,
                    ids.data(), most, &count, said.data());
  SayStatus(answer, status, said.text());
  auto list = PluginJson::array();
  // More than there was room for is kvbed's to find.
  for (size_t i = 0; i < std::min(count, most); ++i) {
    list.push_back(ToHex(
        std::as_bytes(std::span(ids)).subspan(i * KVBED_STORE_ID_BYTES, KVBED_STORE_ID_BYTES)));
  }
  if (count > most) list.push_back("more than there was room for");
  answer["ids"] = std::move(list);
}

void PluginHost::ServeManifestList(const PluginJson& question, PluginJson& answer) {
  const size_t most = question.at("most").get<size_t>();
  std::optional<std::string> after;
  if (question.at("after").is_string()) after = question["after"].get<std::string>();
  const auto names = std::make_unique<char[][KVBED_STORE_NAME_BYTES]>(most);
  size_t count = 0;
  PluginMessage said;
  const kvbed_store_status status = plugin_->list_manifests(
      store_, after ? after->c_str() : nullptr, names.get(), most, &count, said.data());
  SayStatus(answer, status, said.text());
  auto list = PluginJson::array();
  for (size_t i = 0; i < std::min(count, most); ++i) {
    list.push_back(std::string(names[i], ::strnlen(names[i], KVBED_STORE_NAME_BYTES)));
  }
  if (count > most) list.push_back("more than there was room for");
  answer["names"] = std::move(list);
}

void PluginHost::Serve(const std::string& verb, const PluginJson& question, PluginJson& answer) {
  PluginMessage said;
  const std::string name = question.value("name", std::string());
  const auto say = [&](kvbed_store_status status) { SayStatus(answer, status, said.text()); };
  if (verb == "hello") {
    std::string message;
    const kvbed_store_status status = Open(question, answer, message);
    return SayStatus(answer, status, message);
  }
  KVBED_CHECK(store_ != nullptr);
  if (verb == "put") return ServeBatch(plugin_->put, RecordsOf(question), false, answer);
  if (verb == "get") return ServeBatch(plugin_->get, RecordsOf(question), true, answer);
  if (verb == "close") return say(plugin_->close(std::exchange(store_, nullptr), said.data()));
  if (verb == "flush") return say(plugin_->flush(store_, said.data()));
  if (verb == "exists") return ServeBatch(plugin_->exists, IdsOf(question), false, answer);
  if (verb == "remove") return ServeBatch(plugin_->remove, IdsOf(question), false, answer);
  if (verb == "list") return ServeList(question, answer);
  if (verb == "list_manifests") return ServeManifestList(question, answer);
  if (verb == "remove_manifest") {
    return say(plugin_->remove_manifest(store_, name.c_str(), said.data()));
  }
  if (verb == "commit_manifest") {
    const MutableBytes bytes = InWindow(question);
    return say(plugin_->commit_manifest(store_, name.c_str(), bytes.data(), bytes.size(),
                                        question.value("replace", false), said.data()));
  }
  if (verb == "read_manifest") {
    const MutableBytes bytes = InWindow(question);
    uint64_t manifest_bytes = 0;
    say(plugin_->read_manifest(store_, name.c_str(), bytes.data(), bytes.size(), &manifest_bytes,
                               said.data()));
    answer["bytes"] = manifest_bytes;
    return;
  }
  SayStatus(answer, KVBED_STORE_NOT_SUPPORTED, fmt::format("there is no verb {}", verb));
}

}  // namespace

int HostPlugin(const std::string& library, const std::vector<std::string>& options) {
  // What the plug-in prints must not come between the answers.
  const int answers = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (answers < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    Complain(fmt::format("plugin-host: standard output: {}", std::strerror(errno)));
    return kExitUnusable;
  }
  PluginHost host(library, options, answers);
  std::string received;
  std::array<char, 65'536> part;
  for (;;) {
    for (size_t end; (end = received.find('\n')) != std::string::npos;) {
      const std::string line = received.substr(0, end);
      received.erase(0, end + 1);
      if (!host.Answer(line)) return 0;
    }
    const ssize_t got = ::read(STDIN_FILENO, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    received.append(part.data(), static_cast<size_t>(got));
  }
}

}  // namespace kvbed
