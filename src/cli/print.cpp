// etrace print MODEL: the traced step as text, with the role of every input and output, or as a model file.
#include <fmt/format.h>

#include <iostream>

#include "cli/model_choice.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "etrace/model_io.h"

namespace etrace::cli {

namespace {

std::string describe(const OutputRecord& r) {
  if (r.role == Role::Arg || r.role == Role::Out) return fmt::format("{} {}", name(r.role), r.index);
  std::string text = fmt::format("{} {}", name(r.role), to_string(r.path));
  if (!r.leaf_key.empty()) text += ":" + to_string(r.leaf_key);
  return text;
}

void print_model(const Model& m) {
  std::cout << m.name;
  if (!m.source.empty()) std::cout << "  (" << m.source << ")";
  std::cout << "\n";
  if (!m.equations.empty()) std::cout << m.equations << "\n";
  std::cout << "\ninputs\n";
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    std::cout << fmt::format("  {:<3} {:<12} {}\n", i, to_string(m.program.jaxpr.invars[i].aval),
                             describe(m.inputs[i]));
  std::cout << "outputs\n";
  for (std::size_t i = 0; i < m.outputs.size(); ++i)
    std::cout << fmt::format("  {:<3} {:<12} {}\n", i, to_string(aval_of(m.program.jaxpr.outs[i])),
                             describe(m.outputs[i]));
  std::cout << "\n" << to_string(m.program.jaxpr) << "\n";
}

}  // namespace

void add_print(CLI::App& app, Status&) {
  CLI::App* verb =
      app.add_subcommand("print", "print the traced step of a model, or write it to a model file");
  auto choice = std::make_shared<ModelChoice>("print", Dtype::F32);
  auto save = std::make_shared<std::string>();
  auto bare = std::make_shared<bool>(false);
  choice->add_model_options(*verb);
  auto* program =
      verb->add_flag("--program", *bare,
                     "the program alone, with the values of its constants, as text that can be read back");
  verb->add_option("--save", *save, "write a model file, JSON; -: to standard output")
      ->type_name("FILE")
      ->excludes(program);
  verb->callback([choice, save, bare] {
    require_writable("print", {"--save", *save});
    require_different_files("print", {{"MODEL", choice->model}, {"--save", *save}});
    require_different_files("print", {{"--load", choice->load}, {"--save", *save}});
    const Model m = choice->make_model();
    if (!save->empty())
      write_output(*save, write_model(m));
    else if (*bare)
      std::cout << to_string(m.program) << "\n";
    else
      print_model(m);
  });
}

}  // namespace etrace::cli
