// Checks on the names in result files.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvbed {

template <class AnyJson>
testing::AssertionResult HasNames(const AnyJson& object, const std::vector<std::string>& names) {
  auto result = testing::AssertionSuccess();
  for (const std::string& name : names) {
    if (object.contains(name)) continue;
    if (result) result = testing::AssertionFailure() << "missing:";
    result << " " << name;
  }
  return result;
}

// Every null of the object has a text in NAME_reason beside it. Objects in it are looked into
// unless they are of another file's making.
template <class AnyJson>
testing::AssertionResult NullsHaveReasons(const AnyJson& object) {
  auto result = testing::AssertionSuccess();
  for (const auto& [name, value] : object.items()) {
    const std::string reason = name + "_reason";
    if (value.is_object()) {
      if (const auto inner = NullsHaveReasons(value); !inner) {
        if (result) result = testing::AssertionFailure() << "without a reason:";
        result << " in " << name << " (" << inner.message() << ")";
      }
    } else if (value.is_null() && !name.ends_with("_reason") &&
               (!object.contains(reason) || !object[reason].is_string())) {
      if (result) result = testing::AssertionFailure() << "without a reason:";
      result << " " << name;
    }
  }
  return result;
}

}  // namespace kvbed
