// How a test says that this machine lacks what it needs.
// A skip with its reason, or a failure in a build where everything must run (KVBED_REQUIRE_ALL).
#pragma once

#include <gtest/gtest.h>

#ifdef KVBED_REQUIRE_ALL
#define KVBED_SKIP_OR_FAIL(reason) FAIL() << "must run here, but can't: " << (reason)
#else
#define KVBED_SKIP_OR_FAIL(reason) GTEST_SKIP() << (reason)
#endif
