// The text of the error that a call throws.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "etrace/error.h"

namespace etrace::testing {

// what() of the E that f throws; fails the test if it throws nothing or something else.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error was thrown: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace etrace::testing
