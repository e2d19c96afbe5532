// Writing to a descriptor until all is written.
#pragma once

#include <string_view>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

// `what` begins the message of an error, as in "write out.json".
Status WriteAll(int fd, Bytes bytes, std::string_view what);

}  // namespace kvbed
