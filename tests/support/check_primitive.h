// The universal checker: every rule of a primitive against every other rule, on concrete operands.
//
//   types        typing rule = types of the results = types in a recording
//   kernel       native code writes all of its results and nothing else, also in place and when called again
//   interpreter  a one-equation program gives what the operation gives at once
//   lower        the lowering gives the same
//   prune        each result alone is what it is among the others
//   text         programs are well typed, and print and parse back to themselves
//   jvp          tangents = finite differences, for every floating operand alone and for all together
//   linearize    the linear program of reverse mode gives the same tangents
//   transpose    <u, J v> = <Jᵀ u, v>
//   second order tangents of tangents and of cotangents = finite differences of these
//   axes, facts  what is claimed of results is true (check_claims.h)
//   vmap         the batched program = a loop, over each choice of mapped operands; nested; of jvp and of vjp
//
// Nothing is asserted here: the answer is a list, so that the checker itself can be tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etrace/primitive.h"

namespace etrace::testing {

struct Failure {
  std::string property;  // one of the words above, or "row" for a row that lacks something
  std::string primitive;
  std::string sample;  // "3: f64[2,5] f64[] [axis=1]"
  std::string detail;  // what differed and by how much
};
std::string to_string(const Failure&);
std::string to_string(const std::vector<Failure>&);  // one per line

std::vector<Failure> check_primitive(const Primitive&, std::uint64_t seed);
std::vector<Failure> check_sample(const Primitive&, const PrimitiveSpec::Sample&, const std::string& label,
                                  std::uint64_t seed);

}  // namespace etrace::testing
