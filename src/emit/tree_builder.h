// A loop tree while it grows. Private to emit/.
#pragma once

#include <fmt/format.h>

#include "emit/loop_tree.h"
#include "emit/target.h"

namespace etrace::emit {

// constant + Σ step·i; `behind` stands behind every index.
std::string form_text(const Form&, Index constant, std::string_view behind = "");

class TreeBuilder {
 public:
  explicit TreeBuilder(const Target& t) : index_(c_type(t.index)) {}
  void add(auto node) { open_.back()->push_back({std::move(node)}); }
  void open(Range range) {
    open_.back()->push_back({For{std::move(range), {}}});
    open_.push_back(&std::get<For>(open_.back()->back().what).body);
  }
  void close() { open_.pop_back(); }
  std::size_t depth() const { return open_.size(); }
  void close_to(std::size_t depth) { open_.resize(depth); }
  void number(std::string name, std::string value) { add(Let{index_, std::move(name), std::move(value)}); }
  // n: how many of `length` positions of a stretch there are before `last`.
  void stretch(const std::string& last, Index length) {
    number("n", fmt::format("{0} - j < {1} ? {0} - j : {1}", last, length));
  }
  Tree take() { return std::move(tree_); }

 private:
  const std::string index_;
  Tree tree_;
  std::vector<Tree*> open_{&tree_};
};

}  // namespace etrace::emit
