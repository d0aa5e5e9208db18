// Values in and out of tests of operations, and errors that they must give.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"

namespace etrace::testing {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline std::vector<double> values(const Array& a) { return a.tensor().to_doubles(); }

inline Array vec(const std::vector<double>& v, Dtype dtype = Dtype::F32) {
  return array(v, {static_cast<std::int64_t>(v.size())}, dtype);
}
inline Array f64(const std::vector<double>& v) { return vec(v, Dtype::F64); }

// f throws an E (never an internal error) whose text contains the phrase.
template <class E, class F>
void expect_error(const char* phrase, F f) {
  try {
    f();
    ADD_FAILURE() << "no error; expected one with '" << phrase << "'";
  } catch (const InternalError& e) {
    ADD_FAILURE() << e.what();
  } catch (const E& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr(phrase));
  }
}

}  // namespace etrace::testing
