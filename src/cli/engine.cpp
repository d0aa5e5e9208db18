#include "cli/engine.h"

#include <fmt/format.h>

#include "cli/option_values.h"

namespace etrace::cli {

namespace {

Program with_ports(std::string name, const ClosedJaxpr& closed) {
  Program p{std::move(name), closed, {}, {}, {}};
  const Avals in = closed.in_avals(), out = closed.out_avals();
  for (std::size_t i = 0; i < in.size(); ++i)
    p.arguments.push_back({fmt::format("argument{}", i), PortRole::Arg, in[i]});
  for (std::size_t i = 0; i < out.size(); ++i)
    p.results.push_back({fmt::format("result{}", i), PortRole::Result, out[i]});
  return p;
}

}  // namespace

void add_backend_option(CLI::App& verb, std::string& backend) {
  std::vector<std::string> names, docs;
  for (const Backend* b : backends()) {
    names.emplace_back(b->name());
    docs.push_back(fmt::format("{} {}", b->name(), b->doc()));
  }
  verb.add_option("--backend", backend, fmt::format("{}", fmt::join(docs, "; ")))
      ->type_name("NAME")
      ->check(one_of(names))
      ->capture_default_str();
}

std::string engine_text(const std::string& backend) {
  const Backend& engine = find_backend(backend);
  return fmt::format("engine {}: {}\n", engine.name(), engine.doc());
}

OnBackend::OnBackend(const std::string& backend, std::string name, const ClosedJaxpr& closed)
    : program_(with_ports(std::move(name), closed)), code_(find_backend(backend).compile(program_)) {}

Tensors OnBackend::operator()(std::span<const Tensor> arguments) const {
  std::vector<const void*> in;
  std::vector<void*> out;
  Tensors results;
  for (const Tensor& t : arguments) in.push_back(t.bytes());
  for (const Port& r : program_.results) {
    results.push_back(Tensor::uninitialized(r.aval));
    out.push_back(results.back().writable());
  }
  code_->run(in.data(), out.data());
  return results;
}

}  // namespace etrace::cli
