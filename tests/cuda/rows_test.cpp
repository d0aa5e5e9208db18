// Every sample of every row on a played CUDA device, against the interpreter; what has no code is refused by
// name.
#include <set>

#include "cuda/played_device.h"
#include "cuda/real_compiler.h"
#include "emit/emit.h"
#include "etrace/etrace.h"

namespace etrace {
namespace {

using namespace testing;

class CudaRows : public PlayedDevice {};

struct NamedSample {
  const Primitive* row;
  PrimitiveSpec::Sample sample;
};

// All of them side by side.
Program program_of(const std::vector<NamedSample>& samples, Tensors& args) {
  Avals in;
  for (const NamedSample& s : samples)
    for (const Array& a : s.sample.operands) {
      in.push_back(a.aval());
      args.push_back(a.tensor());
    }
  std::vector<std::string> names;
  Program out = as_program(make_jaxpr(
      [&](ArraySpan x) {
        Arrays all;
        std::size_t at = 0;
        for (const NamedSample& s : samples) {
          for (const Array& y :
               bind_primitive(*s.row, x.subspan(at, s.sample.operands.size()), s.sample.params)) {
            all.push_back(y);
            names.push_back(std::string(s.row->name()));
          }
          at += s.sample.operands.size();
        }
        return all;
      },
      in));
  out.name = "rows";
  for (std::size_t i = 0; i < names.size(); ++i) out.results[i].name = names[i] + std::to_string(i);
  return out;
}

// Sums in another order; functions of the C library; halves are rounded by a hash of such a sum: to the other
// neighbour, one unit away.
double tolerance(Dtype dtype) {
  return dtype == Dtype::F64 ? 1e-12 : dtype == Dtype::F32 ? 1e-5 : dtype == Dtype::F16 ? 0x1p-10 : 0x1p-7;
}

void expect_rows_agree(const std::vector<NamedSample>& samples) {
  Tensors args;
  const Program p = program_of(samples, args);
  const Tensors expected = run_interpreter(p, args), found = run_on_device(p, args);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(distance(found[i], expected[i]), tolerance(expected[i].dtype()))
        << p.results[i].name << " " << to_string(expected[i].aval());
}

// f(samples) for those of all rows that the target takes, about a hundred at once; the names of the others.
template <class F>
std::set<std::string> for_all_rows(const F& f) {
  std::set<std::string> refused;
  std::vector<NamedSample> together;
  for (const Primitive* p : primitives()) {
    if (p->spec.samples == nullptr || p->name().starts_with("test_")) continue;
    if (p->spec.kernel == nullptr && p->spec.lower == nullptr) continue;
    for (const PrimitiveSpec::Sample& s : p->spec.samples(3)) {
      Tensors args;
      try {
        static_cast<void>(emit::build(program_of({{p, s}}, args), emit::find_target("cuda")));
        together.push_back({p, s});
      } catch (const NotSupportedError& e) {
        EXPECT_NE(e.message().find("the target 'cuda'"), std::string::npos) << e.what();
        refused.insert(std::string(p->name()));
      }
    }
    if (together.size() > 100) {
      f(together);
      together.clear();
    }
  }
  f(together);
  return refused;
}

TEST_F(CudaRows, HaveCodeOrAreRefused) {
  EXPECT_EQ(for_all_rows(expect_rows_agree),
            (std::set<std::string>{"dot_general",  // of one type into a wider one
                                   "polygamma", "stranger", "stranger_that_speaks", "tape_while"}));
}

TEST_F(CudaRows, AreTakenByTheCompiler) {
  if (real_compiler() == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  JoinedSources all;
  for_all_rows([&](const std::vector<NamedSample>& samples) {
    Tensors args;
    all.add(program_of(samples, args));
  });
  all.expect_taken();
}

}  // namespace
}  // namespace etrace
