// --backend, for every verb that runs programs, and programs of the verbs' own on a backend.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "etrace/backend.h"
#include "etrace/tensor.h"

namespace etrace::cli {

// The names and what they mean come from the rows. `backend` holds the default.
void add_backend_option(CLI::App& verb, std::string& backend);
// "engine auto: interprets at once, …": what a run says of itself.
std::string engine_text(const std::string& backend);

// A program that is no learner's, ready to run.
class OnBackend {
 public:
  OnBackend(const std::string& backend, std::string name, const ClosedJaxpr&);
  Tensors operator()(std::span<const Tensor> arguments) const;  // of the program's types

 private:
  Program program_;
  std::shared_ptr<const Runnable> code_;
};

}  // namespace etrace::cli
