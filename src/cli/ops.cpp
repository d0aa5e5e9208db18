// etrace ops: the table of primitives, straight from their rows.
#include <fmt/format.h>

#include <iostream>

#include "cli/verbs.h"
#include "etrace/etp.h"
#include "etrace/primitive.h"

namespace etrace::cli {

namespace {

// Which rules a row has: its own ('x'), derived from its lowering ('l'), or none ('-').
std::string rules(const PrimitiveSpec& s) {
  auto mark = [&](bool own, bool derivable = true) {
    return own ? 'x' : derivable && s.lower != nullptr ? 'l' : '-';
  };
  return fmt::format("{:^6} {:^4} {:^9} {:^6}", mark(s.kernel != nullptr),
                     mark(s.jvp != nullptr || s.jvp_joint != nullptr), mark(s.transpose != nullptr),
                     mark(s.batch != nullptr));
}

}  // namespace

void add_ops(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand("ops", "list the primitives and the rules that each has");
  auto only_etp = std::make_shared<bool>(false);
  verb->add_flag("--etp", *only_etp, "only the operators that can own a trainable weight");
  verb->callback([only_etp] {
    std::size_t count = 0;
    std::cout << fmt::format("{:<30} {:^6} {:^4} {:^9} {:^6}  {}\n", "primitive", "kernel", "jvp",
                             "transpose", "batch", "what it does");
    for (const Primitive* p : primitives()) {
      if (*only_etp && !is_etp(*p)) continue;
      ++count;
      std::cout << fmt::format("{:<30} {}  {}{}\n", p->name(), rules(p->spec), is_etp(*p) ? "[ETP] " : "",
                               p->spec.doc);
    }
    std::cout << fmt::format(
        "\n{} primitives. x: a rule of its own, l: by its lowering, -: none needed or none possible.\n",
        count);
  });
}

}  // namespace etrace::cli
