// Fields of a benchmark's rows: how some are written, and how any is read as text for a table.
// It knows no kind of row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/result_json.h"

namespace kvbed {

// {p50, p99, p99_9, n}, null with a reason where too few values were seen. `what` was timed, as in
// "records".
Json LatencyJson(const std::vector<uint64_t>& latencies_ns, std::string_view what);

// The field at a JSON pointer, as in "/cell/store"; null where it is absent or null.
const Json* FindField(const Json& row, const char* path);

// The field as text: a number with so many digits after the point, ns as seconds for kNsInSeconds,
// anything as it is for -1; `absent` where there is none.
inline constexpr int kNsInSeconds = -2;
std::string FieldText(const Json& row, const char* path, int digits, const char* absent);

// The same for a terminal: what a label or a path says can't steer it.
std::string ShownText(const Json& row, const char* path, int digits, const char* absent);

// "kvbed 0.1.0: <CPU>, 2 CPUs, 24 GiB, Linux ...", from a row.
std::string MachineText(const Json& row);

}  // namespace kvbed
