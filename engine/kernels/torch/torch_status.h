// Turns what torch throws into a Status, at the boundary of its kernels. Engine-private: it brings
// torch's headers.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "offload/status.h"

namespace kvbed {

// The first line of what torch says, which is followed by a backtrace or advice for Python.
inline std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// Status of the exception being handled; call it in a catch block only.
inline Status StatusFromTorchException(std::string_view what) {
  const std::string context = std::string(what) + ": ";
  try {
    throw;
  } catch (const c10::Error& error) {
    const std::string line = FirstLine(error.what_without_backtrace());
    // c10/core/impl/alloc_cpu.cpp has no type of its own for it.
    if (line.find("DefaultCPUAllocator") != std::string::npos ||
        line.find("alloc_cpu") != std::string::npos) {
      return Status::OutOfSpace(context +
                                "out of memory: use a shorter context or a smaller model");
    }
    return Status::NotSupported(context + "torch: " + line);
  } catch (const std::bad_alloc&) {
    return Status::OutOfSpace(context + "out of memory");
  } catch (const std::exception& error) {
    return Status::NotSupported(context + "torch: " + FirstLine(error.what()));
  }
}

}  // namespace kvbed
