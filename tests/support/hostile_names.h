// Names that want to be more than names, and models that have them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emit/program.h"
#include "etrace/learner.h"
#include "etrace/model_io.h"
#include "etrace/program.h"
#include "support/c_tokens.h"
#include "support/random_models.h"

namespace etrace::testing {

// Bytes, joined lines, trigraphs, ends of comments and strings, directives, placeholders, our own words …;
// empty and very long ones, too.
std::string hostile_name(Dice&);

// Other names, one for one: the first that is met gets the first one, and so on. No name stays none.
class Renaming {
 public:
  explicit Renaming(std::function<std::string()> draw) : draw_(std::move(draw)) {}
  std::string operator()(const std::string& name);
  std::size_t count() const { return names_.size(); }

 private:
  std::function<std::string()> draw_;
  std::map<std::string, std::string> names_;
  std::set<std::string> given_;
};
// n0, n1 …, and the same with something hostile behind it, in the same order.
Renaming plain_names();
Renaming hostile_names(Dice&);
// Nothing but hostile.
Renaming bare_names(Dice&);

Program renamed(Program, Renaming&);  // itself, its ports, the modules of its equations
Model renamed(Model, Renaming&);      // itself, its paths, the modules of its equations

// What is emitted, by kind: C of this machine, with and without clocks, C that stands alone, CUDA; or the
// files of an exported learner.
using Texts = std::vector<std::pair<std::string, std::string>>;
// A program for each of the targets, if there is code for it, with all passes behind it; and printed.
std::vector<emit::EmitProgram> built(const Program&);
emit::EmitProgram renamed(emit::EmitProgram, Renaming&);
Texts printed(const std::vector<emit::EmitProgram>&);
// All programs of a learner, for the mean squared error of the first result.
std::vector<Program> learner_programs(const Model&, const LearningRule&);
// The files of an exported learner, with project and Arduino library; none if it cannot be exported.
Texts exported_texts(const Model&, const LearningRule&, const std::string& optimizer);

// Empty, or the first difference between the tokens of two lists of texts of C.
std::string difference_of_texts(const Texts&, const Texts&,
                                std::span<const CLanguage> languages = c_languages());

}  // namespace etrace::testing
