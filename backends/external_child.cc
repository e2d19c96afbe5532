#include "backends/external_child.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/protocol_answer.h"
#include "backends/store_protocol.h"
#include "offload/aligned_buffer.h"
#include "offload/clock.h"
#include "offload/manifest.h"

namespace kvbed {
namespace {

constexpr uint64_t kEndNs = 1'000'000'000;  // for a child that closed its output to be gone
constexpr uint64_t kListedMax = uint64_t{1} << 26;

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string Counted(size_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

nlohmann::json IdsAsJson(std::span<const RecordId> ids) {
  auto list = nlohmann::json::array();
  for (const RecordId& id : ids) list.push_back(id.ToHex());
  return list;
}

}  // namespace

ExternalChild::ExternalChild(const ExternalStoreOptions& options, SharedWindow& window,
                             std::unique_ptr<ChildProcess> process)
    : spec_(options.spec),
      timeout_ns_(options.timeout_ms * 1'000'000),
      window_(&window),
      process_(std::move(process)),
      lines_(process_->input(), process_->output(), process_->errors(), kProtocolLineBytesMax),
      stamp_(RandomId()) {}

Result<std::unique_ptr<ExternalChild>> ExternalChild::Start(const ExternalStoreOptions& options,
                                                            SharedWindow& window) {
  auto process = ChildProcess::Start(options.program, options.argv);
  if (!process.ok()) return process.status().WithContext(options.spec);
  std::unique_ptr<ExternalChild> child(new ExternalChild(options, window, std::move(*process)));
  KVBED_RETURN_IF_ERROR(child->Greet(options));
  return child;
}

Status ExternalChild::Greet(const ExternalStoreOptions& options) {
  KVBED_ASSIGN_OR_RETURN(
      const Json answer,
      Call("hello", {},
           {{"version", kStoreProtocolVersion},
            {"access", ProtocolAccessName(options.access)},
            {"window", {{"path", window_->path()}, {"bytes", window_->bytes().size()}}}}));
  auto greeting = ParseGreeting(answer);
  if (!greeting.ok()) return Fail(greeting.status().message(), greeting.status().code());
  greeting_ = std::move(*greeting);
  return Status::Ok();
}

Status ExternalChild::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Status ExternalChild::Fail(std::string_view what, StatusCode code) {
  if (Status first = failure(); !first.ok()) return first;
  std::string text = fmt::format("{}: the store failed in {} after {:.3f} s: {}", spec_, current_,
                                 Seconds(MonotonicNs() - current_began_ns_), what);
  const std::string words = lines_.LastWords();
  if (!words.empty()) text += fmt::format("; the last that it wrote to standard error: {}", words);
  process_->Kill();
  process_->WaitForEnd(MonotonicNs() + kEndNs);
  const std::lock_guard lock(mutex_);
  failure_ = Status(code, std::move(text));
  return failure_;
}

Result<nlohmann::json> ExternalChild::Call(std::string_view verb, std::string_view what,
                                           Json question) {
  KVBED_RETURN_IF_ERROR(failure());
  const uint64_t number = calls_ + 1;
  const std::string before = std::exchange(
      current_, fmt::format("{} (call {}{}{})", verb, number, what.empty() ? "" : ", ", what));
  const uint64_t before_ns = std::exchange(current_began_ns_, MonotonicNs());
  calls_ = number;
  question["call"] = number;
  question["verb"] = verb;
  std::string line;
  switch (lines_.Ask(question.dump(), current_began_ns_ + timeout_ns_, line)) {
    case ExchangeEnd::kAnswered: break;
    case ExchangeEnd::kTimedOut:
      return Fail(fmt::format("no answer within {} s; it was killed", Seconds(timeout_ns_)));
    case ExchangeEnd::kClosed: {
      const bool gone = process_->WaitForEnd(MonotonicNs() + kEndNs);
      return Fail(gone ? fmt::format("it {}", process_->HowItEnded())
                       : "it closed its standard output; it was killed");
    }
    case ExchangeEnd::kTooLong:
      return Fail(fmt::format("its answer is longer than {} bytes", kProtocolLineBytesMax));
    case ExchangeEnd::kUnasked: {
      // What this call was to be doesn't matter: it was never sent.
      if (!before.empty()) {
        current_ = before;
        current_began_ns_ = before_ns;
      }
      return Fail(
          fmt::format("it wrote to standard output what nobody asked for: {}", lines_.unasked()));
    }
    case ExchangeEnd::kFailed: return Fail("its standard output can't be read");
  }
  auto answer = ParseAnswer(line, number);
  if (!answer.ok()) return Fail(answer.status().message());
  ++calls_answered_;
  return answer;
}

Status ExternalChild::StatusIn(const Json& answer) {
  const auto status = StatusOfAnswer(answer);
  if (!status) {
    return Fail(fmt::format("an answer has no known status: {}", PrintableAnswer(answer)));
  }
  return status->WithContext(fmt::format("{}: {}", spec_, current_));
}

Status ExternalChild::CallForStatus(std::string_view verb, std::string_view what, Json question) {
  KVBED_ASSIGN_OR_RETURN(const Json answer, Call(verb, what, std::move(question)));
  return StatusIn(answer);
}

Result<nlohmann::json> ExternalChild::CallForResults(std::string_view verb, std::string_view what,
                                                     Json question, size_t count) {
  KVBED_ASSIGN_OR_RETURN(Json answer, Call(verb, what, std::move(question)));
  const auto results = ResultsOfAnswer(answer, count);
  if (!results.ok()) return Fail(results.status().message());
  if (*results == nullptr) {
    KVBED_RETURN_IF_ERROR(StatusIn(answer));
    return Fail("its answer has no results");
  }
  return **results;
}

// ---- records -----------------------------------------------------------------------------------

void ExternalChild::ReleaseWindow(uint64_t bytes) {
  last_used_bytes_ = RoundUp(bytes, kPageBytes);
  StampPages(window_->bytes().first(last_used_bytes_), stamp_);
  stamped_bytes_ = std::max(stamped_bytes_, last_used_bytes_);
}

// Since the call before: nothing of it may have been written to after its answer.
Status ExternalChild::CheckWindowIsUntouched() {
  if (AreStamped(window_->bytes().first(last_used_bytes_), stamp_)) return Status::Ok();
  return Fail("it wrote to the shared memory after its answer");
}

void ExternalChild::Transfer(std::string_view verb, std::span<StoreRequest* const> requests) {
  std::vector<StoreRequest*> batch;
  uint64_t bytes = 0;
  for (StoreRequest* request : requests) {
    const uint64_t record_bytes = request->record.size();
    if (record_bytes > window_->bytes().size()) {
      request->status = Status::InvalidArgument(
          fmt::format("{}: a record of {} bytes doesn't fit the {} bytes shared with the store: "
                      "give window={}",
                      spec_, record_bytes, window_->bytes().size(), record_bytes));
      continue;
    }
    if (bytes + record_bytes > window_->bytes().size() || batch.size() == kProtocolPageMax) {
      TransferBatch(verb, batch);
      batch.clear();
      bytes = 0;
    }
    batch.push_back(request);
    bytes += record_bytes;
  }
  if (!batch.empty()) TransferBatch(verb, batch);
}

void ExternalChild::TransferBatch(std::string_view verb, std::span<StoreRequest* const> batch) {
  const auto fail_all = [&](const Status& status) {
    for (StoreRequest* request : batch) request->status = status;
  };
  const bool put = verb == "put";
  if (const Status status = failure(); !status.ok()) return fail_all(status);
  if (const Status status = CheckWindowIsUntouched(); !status.ok()) return fail_all(status);
  auto records = Json::array();
  uint64_t offset = 0;
  for (StoreRequest* request : batch) {
    records.push_back(
        {{"id", request->id.ToHex()}, {"offset", offset}, {"bytes", request->record.size()}});
    if (put) {
      std::memcpy(window_->bytes().data() + offset, request->record.data(), request->record.size());
    }
    offset += request->record.size();
  }
  const MutableBytes used = window_->bytes().first(offset);
  // What isn't written can't be taken for data.
  if (!put && stamped_bytes_ < offset) StampPages(used.subspan(stamped_bytes_), stamp_);
  const auto results = CallForResults(verb, Counted(batch.size(), "record", "records"),
                                      {{"records", std::move(records)}}, batch.size());
  offset = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    StoreRequest& request = *batch[i];
    const MutableBytes shared = used.subspan(offset, request.record.size());
    offset += request.record.size();
    if (!results.ok()) {
      request.status = results.status();
    } else if (put) {
      FinishPut(request, (*results)[i], shared);
    } else {
      FinishGet(request, (*results)[i], shared);
    }
    request.completed_ns = MonotonicNs();
  }
  ReleaseWindow(offset);
}

void ExternalChild::FinishPut(StoreRequest& request, const Json& result, Bytes shared) {
  request.status = StatusIn(result);
  if (!request.status.ok()) return;
  if (std::memcmp(shared.data(), request.record.data(), shared.size()) == 0) return;
  request.status = Fail(
      fmt::format("it changed the bytes of {} in place of taking them", request.id.ToString()));
}

void ExternalChild::FinishGet(StoreRequest& request, const Json& result, MutableBytes shared) {
  request.status = StatusIn(result);
  if (!request.status.ok()) return;
  const auto stored_bytes = BytesOfAnswer(result);
  if (!stored_bytes) {
    request.status = Fail("a result of it is ok and has no number of bytes");
    return;
  }
  const uint64_t record_bytes = request.record.size();
  std::memcpy(request.record.data(), shared.data(), record_bytes);
  const auto refuse = [&](uint64_t short_bytes, std::string why) {
    if (short_bytes < record_bytes) request.short_bytes = short_bytes;
    request.status = Status::Corruption(fmt::format("{}: {}: {}", spec_, current_, std::move(why)));
  };
  if (*stored_bytes != record_bytes) {
    return refuse(*stored_bytes, fmt::format("it says that {} has {} bytes, {} were put",
                                             request.id.ToString(), *stored_bytes, record_bytes));
  }
  const uint64_t whole_bytes = FirstStampedPage(request.record, stamp_) * kPageBytes;
  if (whole_bytes == record_bytes) return;
  refuse(whole_bytes,
         fmt::format("it says that it gave the {} bytes of {}, and from {} on nothing was written, "
                     "or it had kept what isn't the record's: bytes taken after their put",
                     record_bytes, request.id.ToString(), whole_bytes));
}

// ---- the other verbs ---------------------------------------------------------------------------

Status ExternalChild::Flush() { return CallForStatus("flush", {}, Json::object()); }

Result<std::vector<Status>> ExternalChild::AskAboutIds(std::string_view verb,
                                                       std::span<const RecordId> ids) {
  std::vector<Status> statuses;
  while (!ids.empty()) {
    const auto part = ids.first(std::min<size_t>(ids.size(), kProtocolPageMax));
    KVBED_ASSIGN_OR_RETURN(const Json results,
                           CallForResults(verb, Counted(part.size(), "id", "ids"),
                                          {{"ids", IdsAsJson(part)}}, part.size()));
    for (const Json& result : results) {
      statuses.push_back(StatusIn(result));
      KVBED_RETURN_IF_ERROR(failure());
    }
    ids = ids.subspan(part.size());
  }
  return statuses;
}

Result<std::vector<bool>> ExternalChild::Exists(std::span<const RecordId> ids) {
  KVBED_ASSIGN_OR_RETURN(const std::vector<Status> statuses, AskAboutIds("exists", ids));
  std::vector<bool> exist;
  for (const Status& status : statuses) {
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
    exist.push_back(status.ok());
  }
  return exist;
}

Status ExternalChild::Remove(std::span<const RecordId> ids) {
  KVBED_ASSIGN_OR_RETURN(const std::vector<Status> statuses, AskAboutIds("remove", ids));
  for (const Status& status : statuses) KVBED_RETURN_IF_ERROR(status);
  return Status::Ok();
}

Result<std::vector<std::string>> ExternalChild::CallForPage(std::string_view verb, const char* list,
                                                            std::string_view after) {
  Json question = {{"most", kProtocolPageMax}};
  question["after"] = after.empty() ? Json() : Json(after);
  KVBED_ASSIGN_OR_RETURN(Json answer, Call(verb, {}, std::move(question)));
  KVBED_RETURN_IF_ERROR(StatusIn(answer));
  auto page = PageOfAnswer(answer, list, after);
  if (!page.ok()) return Fail(page.status().message());
  return page;
}

Result<std::vector<RecordId>> ExternalChild::List() {
  std::vector<RecordId> ids;
  std::string after;
  for (;;) {
    KVBED_ASSIGN_OR_RETURN(const auto page, CallForPage("list", "ids", after));
    if (page.empty()) return ids;
    const auto more = ParseIds(page);
    if (!more.ok()) return Fail(more.status().message());
    ids.insert(ids.end(), more->begin(), more->end());
    after = page.back();
    if (ids.size() > kListedMax) return Fail("its list has no end");
  }
}

Status ExternalChild::CommitManifest(const std::string& name, std::string_view encoded,
                                     bool replace) {
  KVBED_RETURN_IF_ERROR(failure());
  if (encoded.size() > window_->bytes().size()) {
    return Status::InvalidArgument(fmt::format(
        "{}: the manifest of {} has {} bytes and doesn't fit the {} bytes shared with "
        "the store: give window={}",
        spec_, name, encoded.size(), window_->bytes().size(), RoundUp(encoded.size(), kPageBytes)));
  }
  KVBED_RETURN_IF_ERROR(CheckWindowIsUntouched());
  std::memcpy(window_->bytes().data(), encoded.data(), encoded.size());
  const Status status = CallForStatus(
      "commit_manifest", name,
      {{"name", name}, {"replace", replace}, {"offset", 0}, {"bytes", encoded.size()}});
  ReleaseWindow(encoded.size());
  return status;
}

Result<std::string> ExternalChild::ReadManifest(const std::string& name) {
  KVBED_RETURN_IF_ERROR(failure());
  KVBED_RETURN_IF_ERROR(CheckWindowIsUntouched());
  const uint64_t capacity_bytes = window_->bytes().size();
  KVBED_ASSIGN_OR_RETURN(
      const Json answer,
      Call("read_manifest", name, {{"name", name}, {"offset", 0}, {"bytes", capacity_bytes}}));
  KVBED_RETURN_IF_ERROR(StatusIn(answer));
  const auto bytes = BytesOfAnswer(answer);
  if (!bytes) return Fail("its answer has no number of bytes");
  if (*bytes > kManifestBytesMax) {
    return Status::Corruption(
        fmt::format("{}: it says that the manifest of {} has {} bytes", spec_, name, *bytes));
  }
  if (*bytes > capacity_bytes) {
    return Status::InvalidArgument(
        fmt::format("{}: the manifest of {} has {} bytes and doesn't fit the {} bytes shared with "
                    "the store: give window={}",
                    spec_, name, *bytes, capacity_bytes, RoundUp(*bytes, kPageBytes)));
  }
  std::string encoded(AsText(window_->bytes().first(*bytes)));
  ReleaseWindow(*bytes);
  return encoded;
}

Result<std::vector<std::string>> ExternalChild::ListManifests() {
  std::vector<std::string> names;
  for (;;) {
    KVBED_ASSIGN_OR_RETURN(
        const auto page,
        CallForPage("list_manifests", "names", names.empty() ? std::string() : names.back()));
    if (page.empty()) return names;
    if (const Status checked = CheckNames(page); !checked.ok()) return Fail(checked.message());
    names.insert(names.end(), page.begin(), page.end());
    if (names.size() > kListedMax) return Fail("its list of manifests has no end");
  }
}

Status ExternalChild::RemoveManifest(const std::string& name) {
  return CallForStatus("remove_manifest", name, {{"name", name}});
}

Status ExternalChild::Close() {
  KVBED_RETURN_IF_ERROR(CheckWindowIsUntouched());
  KVBED_RETURN_IF_ERROR(CallForStatus("close", {}, Json::object()));
  ::shutdown(process_->input(), SHUT_WR);
  if (!process_->WaitForEnd(current_began_ns_ + timeout_ns_)) {
    return Fail("it didn't end after it was closed; it was killed");
  }
  const std::string end = process_->HowItEnded();
  if (end != "exited with code 0") return Fail(fmt::format("it {}", end));
  return Status::Ok();
}

}  // namespace kvbed
