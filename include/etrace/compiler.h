// The eligibility-trace compiler: four passes from a traced step to an ETraceGraph. Each can be called alone.
#pragma once

#include "etrace/graph.h"
#include "etrace/module.h"

#pragma GCC visibility push(default)
namespace etrace {

// Pass 1: the program flattened (calls inlined, conditionals converted, short loops unrolled) and the tables
// of states.
ModuleInfo extract_module_info(const Model&, Reporter&, const CompileOptions& = {});
// Pass 2: hidden states that are updated together.
std::vector<HiddenGroup> find_hidden_groups_from_minfo(const ModuleInfo&, Reporter&,
                                                       const CompileOptions& = {});
// Pass 3: which weight reaches which hidden state through which operator.
std::vector<HiddenParamOpRelation> find_hidden_param_op_relations_from_minfo(const ModuleInfo&,
                                                                             const std::vector<HiddenGroup>&,
                                                                             Reporter&,
                                                                             const CompileOptions& = {});
// Pass 4: the perturbed program.
HiddenPerturbation add_hidden_perturbation_from_minfo(const ModuleInfo&, Reporter&,
                                                      const CompileOptions& = {});

// All of it. Errors carry the records made until then (WithRecords).
ETraceGraph compile_etrace_graph(const Model&, const CompileOptions& = {});

// The same for a module, traced on example arguments. States of the module that the step does not touch, and
// touched states that the module does not hold, are reported as STATE_MISMATCH.
ETraceGraph compile_etrace_graph(const TracedStep&, const CompileOptions& = {});
ETraceGraph compile_etrace_graph(Module&, ArraySpan example, const CompileOptions& = {});
ETraceGraph compile_etrace_graph(Module&, const Array& example, const CompileOptions& = {});
ModuleInfo extract_module_info(Module&, ArraySpan example, Reporter&, const CompileOptions& = {});
std::vector<HiddenGroup> find_hidden_groups_from_module(Module&, ArraySpan example, Reporter&,
                                                        const CompileOptions& = {});
std::vector<HiddenParamOpRelation> find_hidden_param_op_relations_from_module(Module&, ArraySpan example,
                                                                              Reporter&,
                                                                              const CompileOptions& = {});
HiddenPerturbation add_hidden_perturbation_in_module(Module&, ArraySpan example, Reporter&,
                                                     const CompileOptions& = {});

}  // namespace etrace
#pragma GCC visibility pop
