// The Io of this machine: files and folders by system calls, queues by the engine it was made for.
// It doesn't move data itself.
#pragma once

#include <memory>
#include <string>

#include "backends/io.h"

namespace kvbed {

// `engine` is kIoUring or kPsync; `engine_reason` goes into the info of its queues.
std::unique_ptr<Io> MakePosixIo(IoEngine engine, std::string engine_reason);

}  // namespace kvbed
