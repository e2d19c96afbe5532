// One running child of an external store: each verb of docs/store-protocol.md as a call that ends,
// by an answer or by the time-out, and says who did what. It keeps no index and no manifest.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/child_process.h"
#include "backends/external_store.h"
#include "backends/line_exchange.h"
#include "backends/protocol_answer.h"
#include "backends/shared_window.h"
#include "offload/block_store.h"
#include "offload/status.h"

namespace kvbed {

// One thread at a time calls verbs; the others are for any thread. After a failure (the child
// died, was late, or broke the protocol) it is killed, and every further call gets the failure.
class ExternalChild {
 public:
  // `window` must outlive it.
  static Result<std::unique_ptr<ExternalChild>> Start(const ExternalStoreOptions& options,
                                                      SharedWindow& window);

  const ExternalGreeting& greeting() const { return greeting_; }

  // Sets each request's status and short_bytes. All are puts, or all gets, with records that fit
  // the window one by one; as many as fit are asked at once.
  void Put(std::span<StoreRequest* const> requests) { Transfer("put", requests); }
  void Get(std::span<StoreRequest* const> requests) { Transfer("get", requests); }

  Status Flush();
  Result<std::vector<bool>> Exists(std::span<const RecordId> ids);
  Status Remove(std::span<const RecordId> ids);
  Result<std::vector<RecordId>> List();
  Status CommitManifest(const std::string& name, std::string_view encoded, bool replace);
  Result<std::string> ReadManifest(const std::string& name);
  Result<std::vector<std::string>> ListManifests();
  Status RemoveManifest(const std::string& name);
  // The close verb, and the child's end. Ok when it has ended by itself with code 0.
  Status Close();

  void Kill() { process_->Kill(); }
  int pid() const { return process_->pid(); }
  uint64_t calls() const { return calls_answered_; }
  Status failure() const;

 private:
  using Json = nlohmann::json;

  ExternalChild(const ExternalStoreOptions& options, SharedWindow& window,
                std::unique_ptr<ChildProcess> process);

  Status Greet(const ExternalStoreOptions& options);
  // The answer to one call. `what` is more than the verb for messages: "4 records".
  Result<Json> Call(std::string_view verb, std::string_view what, Json question);
  // The same for a verb that is answered by a status alone.
  Status CallForStatus(std::string_view verb, std::string_view what, Json question);
  // The results of an answer about `count` ids or records, each a status.
  Result<Json> CallForResults(std::string_view verb, std::string_view what, Json question,
                              size_t count);
  Result<std::vector<std::string>> CallForPage(std::string_view verb, const char* list,
                                               std::string_view after);
  Result<std::vector<Status>> AskAboutIds(std::string_view verb, std::span<const RecordId> ids);

  void Transfer(std::string_view verb, std::span<StoreRequest* const> requests);
  void TransferBatch(std::string_view verb, std::span<StoreRequest* const> batch);
  void FinishPut(StoreRequest& request, const Json& result, Bytes shared);
  void FinishGet(StoreRequest& request, const Json& result, MutableBytes shared);
  Status CheckWindowIsUntouched();
  // For the end of a call that used so many bytes of the window.
  void ReleaseWindow(uint64_t bytes);
  // What an answer's {"status", "message"} says; a protocol failure when it says nothing.
  Status StatusIn(const Json& answer);

  // Ends the child and remembers why: "SPEC: NAME in put (call 7, 4 records) after 0.02 s: ...".
  Status Fail(std::string_view what, StatusCode code = StatusCode::kIoError);

  const std::string spec_;
  const uint64_t timeout_ns_;
  SharedWindow* const window_;
  const std::unique_ptr<ChildProcess> process_;
  LineExchange lines_;
  ExternalGreeting greeting_;

  std::atomic<uint64_t> calls_answered_{0};
  uint64_t calls_ = 0;
  std::string current_;  // "put (call 7, 4 records)"
  uint64_t current_began_ns_ = 0;
  // What the window is full of between calls, from its beginning up to the furthest ever used.
  uint64_t stamp_;
  uint64_t stamped_bytes_ = 0;
  uint64_t last_used_bytes_ = 0;

  mutable std::mutex mutex_;
  Status failure_;  // guarded by mutex_
};

}  // namespace kvbed
