// Rewriting rules: for each a program before and after, and the same bits on NaN, zeros of both signs and
// infinities.
#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "etrace/transform.h"
#include "support/programs.h"

namespace etrace {
namespace {

using testing::expect_same_bits;

// `equations` and `outs` are those of programs with these inputs.
void expect_becomes(const std::string& inputs, const std::string& before, const std::string& after) {
  const ClosedJaxpr program = parse("{ lambda ; " + inputs + ". let " + before + " }");
  const ClosedJaxpr lean = simplify(program).to_run();
  EXPECT_TRUE(equal(lean, parse("{ lambda ; " + inputs + ". let " + after + " }")))
      << to_string(program) << "\nbecame\n"
      << to_string(lean) << "\nexpected\n"
      << after;
  expect_same_bits(lean, program);
  EXPECT_TRUE(equal(simplify(lean).to_run(), lean)) << to_string(simplify(lean).to_run());
}
void expect_kept(const std::string& inputs, const std::string& program) {
  expect_becomes(inputs, program, program);
}

TEST(ShapeRules, ReshapesAreOneOrNone) {
  expect_becomes("a:f32[2,3]",
                 "b:f32[1,2,3] = expand_dims[dimensions=[0]] a\n c:f32[2,3] = squeeze[dimensions=[0]] b\n"
                 "d:f32[2,3] = tanh c in (d,)",
                 "d:f32[2,3] = tanh a in (d,)");
  expect_becomes("a:f32[2,3]",
                 "b:f32[3,2] = reshape[dimensions=null, new_sizes=[3,2]] a\n"
                 "c:f32[6] = reshape[dimensions=null, new_sizes=[6]] b\n"
                 "d:f32[6,1] = expand_dims[dimensions=[1]] c in (d,)",
                 "d:f32[6,1] = reshape[dimensions=null, new_sizes=[6,1]] a in (d,)");
  expect_becomes("a:f32[2,1,3]", "b:f32[1,2,3] = transpose[permutation=[1,0,2]] a in (b,)",
                 "b:f32[1,2,3] = reshape[dimensions=null, new_sizes=[1,2,3]] a in (b,)");
  expect_becomes("a:f32[2,3]",
                 "b:f32[2,1,3] = broadcast_in_dim[broadcast_dimensions=[0,2], shape=[2,1,3]] a in (b,)",
                 "b:f32[2,1,3] = reshape[dimensions=null, new_sizes=[2,1,3]] a in (b,)");
}

TEST(ShapeRules, ReductionsOfOneElementAreReshapes) {
  for (const char* op : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"})
    expect_becomes("a:f32[1,3,1]", "b:f32[3] = " + std::string(op) + "[axes=[0,2]] a in (b,)",
                   "b:f32[3] = reshape[dimensions=null, new_sizes=[3]] a in (b,)");
  expect_becomes("a:f32[2,3]", "b:f32[2,3] = reduce_sum[axes=[]] a in (b,)", "in (a,)");
}

TEST(ShapeRules, ReductionsComeBeforeUnitAxes) {
  expect_becomes("a:f32[4,3]",
                 "b:f32[4,1,3] = expand_dims[dimensions=[1]] a\n c:f32[3] = reduce_sum[axes=[0,1]] b in (c,)",
                 "c:f32[3] = reduce_sum[axes=[0]] a in (c,)");
  // Axes that are merged: another order of the sum, so nothing is done.
  expect_kept(
      "a:f32[4,3,2]",
      "b:f32[12,2] = reshape[dimensions=null, new_sizes=[12,2]] a\n c:f32[2] = reduce_sum[axes=[0]] b "
      "in (c,)");
}

TEST(ShapeRules, TransposesCompose) {
  expect_becomes("a:f32[2,3,4]",
                 "b:f32[3,4,2] = transpose[permutation=[1,2,0]] a\n"
                 "c:f32[4,3,2] = transpose[permutation=[1,0,2]] b in (c,)",
                 "c:f32[4,3,2] = transpose[permutation=[2,1,0]] a in (c,)");
  expect_becomes("a:f32[2,3]",
                 "b:f32[3,2] = transpose[permutation=[1,0]] a\n c:f32[2,3] = transpose[permutation=[1,0]] b "
                 "in (c,)",
                 "in (a,)");
  expect_becomes("a:f32[3]",
                 "b:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[1], shape=[2,3]] a\n"
                 "c:f32[3,2] = transpose[permutation=[1,0]] b in (c,)",
                 "c:f32[3,2] = broadcast_in_dim[broadcast_dimensions=[0], shape=[3,2]] a in (c,)");
  expect_becomes("a:f32[2,3]",
                 "b:f32[2,5,3] = broadcast_in_dim[broadcast_dimensions=[0,2], shape=[2,5,3]] a\n"
                 "c:f32[3,2,5] = transpose[permutation=[2,0,1]] b in (c,)",
                 "t:f32[3,2] = transpose[permutation=[1,0]] a\n"
                 "c:f32[3,2,5] = broadcast_in_dim[broadcast_dimensions=[0,1], shape=[3,2,5]] t in (c,)");
}

TEST(ShapeRules, BroadcastsCompose) {
  expect_becomes("a:f32[3]",
                 "b:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[1], shape=[2,3]] a\n"
                 "c:f32[2,4,3] = broadcast_in_dim[broadcast_dimensions=[0,2], shape=[2,4,3]] b in (c,)",
                 "c:f32[2,4,3] = broadcast_in_dim[broadcast_dimensions=[2], shape=[2,4,3]] a in (c,)");
  expect_becomes("a:f32[3]",
                 "b:f32[3,1] = expand_dims[dimensions=[1]] a\n"
                 "c:f32[3,5] = broadcast_in_dim[broadcast_dimensions=[0,1], shape=[3,5]] b in (c,)",
                 "c:f32[3,5] = broadcast_in_dim[broadcast_dimensions=[0], shape=[3,5]] a in (c,)");
}

TEST(ShapeRules, PartsOfWhatWasPutTogether) {
  expect_becomes("a:f32[2,3] b:f32[2,4]",
                 "c:f32[2,7] = concatenate[dimension=1] a b\n"
                 "d:f32[2,4] = slice[limit_indices=[2,7], start_indices=[0,3], strides=null] c\n"
                 "e:f32[1,2] = slice[limit_indices=[2,3], start_indices=[1,1], strides=null] c in (d, e)",
                 "e:f32[1,2] = slice[limit_indices=[2,3], start_indices=[1,1], strides=null] a in (b, e)");
  expect_becomes("a:f32[2] b:f32[2]",
                 "c:f32[2,2] = stack[axis=1] a b\n"
                 "d:f32[2,1] = slice[limit_indices=[2,2], start_indices=[0,1], strides=null] c\n"
                 "e:f32[2] = squeeze[dimensions=[1]] d in (e,)",
                 "in (b,)");
  expect_becomes("a:f32[5]",
                 "b:f32[2] = slice[limit_indices=[2], start_indices=[0], strides=null] a\n"
                 "c:f32[3] = slice[limit_indices=[5], start_indices=[2], strides=null] a\n"
                 "d:f32[5] = concatenate[dimension=0] b c in (d,)",
                 "in (a,)");
  expect_becomes("a:f32[6]",
                 "b:f32[4] = slice[limit_indices=[5], start_indices=[1], strides=null] a\n"
                 "c:f32[2] = slice[limit_indices=[3], start_indices=[1], strides=null] b in (c,)",
                 "c:f32[2] = slice[limit_indices=[4], start_indices=[2], strides=null] a in (c,)");
  // The other way round it is another array.
  expect_kept("a:f32[4]",
              "b:f32[2] = slice[limit_indices=[4], start_indices=[2], strides=null] a\n"
              "c:f32[2] = slice[limit_indices=[2], start_indices=[0], strides=null] a\n"
              "d:f32[4] = concatenate[dimension=0] b c in (d,)");
}

TEST(ShapeRules, MovementsThatMoveNothing) {
  expect_becomes("a:f32[3] z:f32[0]",
                 "b:f32[3] = concatenate[dimension=0] a z\n c:f32[3] = slice[limit_indices=[3], "
                 "start_indices=[0], strides=[1]] b\n d:f32[3] = pad[padding_config=[[0,0,0]]] c 7.0:f32[]\n"
                 "e:f32[3,1] = stack[axis=1] d\n f:f32[3,1] = rev[dimensions=[1]] e\n"
                 "g:f32[3] = squeeze[dimensions=[1]] f\n h:f32[3] = copy g in (h,)",
                 "in (a,)");
  expect_becomes("a:f32[3]", "b:f32[3] = rev[dimensions=[0]] a\n c:f32[3] = rev[dimensions=[0]] b in (c,)",
                 "in (a,)");
}

TEST(ShapeRules, MovementsGoBehindElementwiseOperations) {
  expect_becomes(
      "a:f32[2,3] b:f32[2,3]",
      "c:f32[1,2,3] = expand_dims[dimensions=[0]] a\n d:f32[1,2,3] = expand_dims[dimensions=[0]] b\n"
      "e:f32[1,2,3] = mul c d\n f:f32[1,2,3] = mul 2.0:f32[] e\n"
      "g:f32[2,3] = squeeze[dimensions=[0]] f in (g,)",
      "e:f32[2,3] = mul a b\n f:f32[2,3] = mul 2.0:f32[] e in (f,)");
  expect_becomes("a:f32[3] b:f32[3]",
                 "c:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[1], shape=[2,3]] a\n"
                 "d:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[1], shape=[2,3]] b\n"
                 "e:f32[2,3] = add c d in (e,)",
                 "c:f32[3] = add a b\n"
                 "e:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[1], shape=[2,3]] c in (e,)");
  // Both reshapes are read by others: nothing would be saved.
  expect_kept("a:f32[2] b:f32[2]",
              "c:f32[2,1] = reshape[dimensions=null, new_sizes=[2,1]] a\n"
              "d:f32[2,1] = reshape[dimensions=null, new_sizes=[2,1]] b\n e:f32[2,1] = mul c d in (c, d, e)");
}

TEST(ShapeRules, ElementwiseOperationsRepeatBySizeOne) {
  expect_becomes("a:f32[2,3] b:f32[] c:f32[2]",
                 "d:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[], shape=[2,3]] b\n"
                 "e:f32[2,3] = mul d a\n"
                 "f:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[0], shape=[2,3]] c\n"
                 "g:f32[2,3] = add e f in (g,)",
                 "e:f32[2,3] = mul b a\n f:f32[2,1] = reshape[dimensions=null, new_sizes=[2,1]] c\n"
                 "g:f32[2,3] = add e f in (g,)");
}

TEST(UniformArrays, StaySymbolicAtAnySize) {
  for (const char* n : {"5", "70000"}) {
    const std::string array = "f32[" + std::string(n) + "]", shape = "[" + std::string(n) + "]";
    expect_becomes("a:" + array,
                   "b:" + array + " = broadcast_in_dim[broadcast_dimensions=[], shape=" + shape +
                       "] 2.0:f32[]\n c:" + array + " = square b\n d:" + array + " = mul c a in (d,)",
                   "d:" + array + " = mul 4.0:f32[] a in (d,)");
    expect_becomes("a:" + array,
                   "b:" + array + " = broadcast_in_dim[broadcast_dimensions=[], shape=" + shape +
                       "] 0.0:f32[]\n c:f32[1," + n + "] = expand_dims[dimensions=[0]] b\n d:" + array +
                       " = reduce_sum[axes=[0]] c\n e:" + array + " = sub a d in (e,)",
                   "in (a,)");
  }
}

ClosedJaxpr with_constants(const Function& f, const Avals& in) { return make_jaxpr(f, in); }

TEST(UniformArrays, ConstantsOfOneValueTakeNoMemory) {
  for (const std::int64_t n : {3, 300}) {
    const Array ones(Tensor::full({Dtype::F32, {n, n}}, 1.0)), zeros(Tensor::zeros({Dtype::F32, {n, n}}));
    const Array minus(Tensor::full({Dtype::F32, {n, n}}, -0.0));
    const ClosedJaxpr program = with_constants(
        [&](ArraySpan a) {
          return Arrays{a[0] * ones, a[0] + minus, add_cotangents(a[0], zeros), a[0] / ones, a[0] - zeros};
        },
        {{Dtype::F32, {n, n}}});
    const ClosedJaxpr lean = simplify(program).to_run();
    EXPECT_TRUE(lean.consts.empty());
    EXPECT_TRUE(lean.jaxpr.eqns.empty()) << to_string(lean.jaxpr);
    const ClosedJaxpr kept = simplify(with_constants(
                                          [&](ArraySpan a) {
                                            return Arrays{a[0] + zeros, a[0] * zeros,
                                                          zeros - a[0]};  // −0 + 0 = 0, 0·∞ = NaN, 0 − 0 = 0
                                          },
                                          {{Dtype::F32, {n, n}}}))
                                 .to_run();
    EXPECT_EQ(kept.jaxpr.eqns.size(), 3U) << to_string(kept.jaxpr);
    EXPECT_TRUE(kept.consts.empty());
  }
}

TEST(Constants, EqualOnesBecomeOneAndRepeatedOnesSmall) {
  testing::Random random(1);
  for (const std::int64_t n : {4, 400}) {
    const Array w = random.tensor({Dtype::F32, {n, n}}), again(Tensor::copy_of(w.aval(), w.tensor().bytes()));
    const Array rows(broadcast_to(Array(random.tensor({Dtype::F32, {n}})), {n, n}).tensor());
    const ClosedJaxpr program = with_constants(
        [&](ArraySpan a) {
          return Arrays{a[0] * w, tanh(a[0]) * again, a[0] + rows, matmul_plain(a[0], rows)};
        },
        {{Dtype::F32, {n, n}}});
    ASSERT_EQ(program.consts.size(), 3U);
    const ClosedJaxpr lean = simplify(program).to_run();
    expect_same_bits(lean, program);
    std::size_t elements = 0;
    for (const Tensor& c : lean.consts) elements += static_cast<std::size_t>(c.size());
    EXPECT_LE(elements, static_cast<std::size_t>(n * n + 2 * n));  // the rows as [n], and perhaps as [1,n]
    EXPECT_TRUE(equal(simplify(lean).to_run(), lean));
  }
}

TEST(Constants, NaNsKeepTheirBits) {
  const ClosedJaxpr program =
      parse("{ lambda a:f32[2]=[nan(0x7fc12345),nan(0x7fc12345)] ; b:f32[2]. let in (a, b) }");
  const ClosedJaxpr lean = simplify(program).to_run();
  const Tensors in = testing::hostile_inputs(program, 1);
  EXPECT_EQ(evaluate(lean, in)[0], evaluate(program, in)[0]);
}

TEST(ArithmeticRules, Identities) {
  expect_becomes("a:f32[3]",
                 "b:f32[3] = mul a 1.0:f32[]\n c:f32[3] = add -0.0:f32[] b\n d:f32[3] = sub c 0.0:f32[]\n"
                 "e:f32[3] = div d 1.0:f32[]\n f:f32[3] = neg e\n g:f32[3] = neg f\n"
                 "h:f32[3] = integer_pow[y=1] g\n i:f32[3] = max h h\n j:f32[3] = stop_gradient i in (j,)",
                 "in (a,)");
  expect_becomes("a:i32[3]", "b:i32[3] = add a 0:i32[]\n c:i32[3] = mul b 1:i32[] in (c,)", "in (a,)");
  expect_becomes("a:i32[3]", "b:i32[3] = mul a 0:i32[] in (b,)",
                 "b:i32[3] = broadcast_in_dim[broadcast_dimensions=[], shape=[3]] 0:i32[] in (b,)");
  expect_becomes("p:bool[3]",
                 "q:bool[3] = not p\n r:bool[3] = not q\n s:bool[3] = and r true:bool[]\n"
                 "t:bool[3] = or false:bool[] s in (t,)",
                 "in (p,)");
}

TEST(ArithmeticRules, WhatIsNoIdentityStays) {
  expect_kept("a:f32[3]", "b:f32[3] = add a 0.0:f32[] in (b,)");
  expect_kept("a:f32[3]", "b:f32[3] = sub a -0.0:f32[] in (b,)");
  expect_kept("a:f32[3]", "b:f32[3] = sub 0.0:f32[] a in (b,)");
  expect_kept("a:f32[3]", "b:f32[3] = mul 0.0:f32[] a in (b,)");
  expect_kept("a:f32[3]", "b:f32[3] = sub a a in (b,)");
  expect_kept("a:f32[3]", "b:f32[3] = div a a in (b,)");
  expect_kept("a:f32[1]", "b:f32[2,1] = broadcast_in_dim[broadcast_dimensions=[1], shape=[2,1]] a in (b,)");
}

TEST(ArithmeticRules, SumsOfCotangentsDropAnyZero) {
  // −0 + 0 is 0: not the same bits, but an absent cotangent and a zero one are the same.
  const ClosedJaxpr lean =
      simplify(
          parse("{ lambda ; a:f32[3]. let b:f32[3] = add_any a 0.0:f32[]\n c:f32[3] = add_any -0.0:f32[] b "
                "in (c,) }"))
          .to_run();
  EXPECT_TRUE(lean.jaxpr.eqns.empty());
}

TEST(ArithmeticRules, KnownChoices) {
  expect_becomes("a:f32[3] b:f32[3]", "c:f32[3] = select_n true:bool[] a b in (c,)", "in (b,)");
  expect_becomes("a:f32[3] b:f32[3] d:f32[3]", "c:f32[3] = select_n 9:i32[] a b d in (c,)", "in (d,)");
  expect_becomes("p:bool[3] b:f32[3]", "c:f32[3] = select_n p b b in (c,)", "in (b,)");
  expect_becomes("a:f32[3] b:f32[]",
                 "p:bool[3] = broadcast_in_dim[broadcast_dimensions=[], shape=[3]] true:bool[]\n"
                 "c:f32[3] = select_n p a b in (c,)",
                 "c:f32[3] = broadcast_in_dim[broadcast_dimensions=[], shape=[3]] b in (c,)");
}

TEST(ArithmeticRules, ConversionsThatLoseNothing) {
  const std::string to = " = convert_element_type[new_dtype=\"";
  expect_becomes("a:f32[3]",
                 "b:f64[3]" + to + "float64\", weak_type=false] a\n c:f32[3]" + to +
                     "float32\", weak_type=false] b in (c,)",
                 "in (a,)");
  expect_becomes("a:bool[3]",
                 "b:i32[3]" + to + "int32\", weak_type=false] a\n c:f32[3]" + to +
                     "float32\", weak_type=false] b in (c,)",
                 "c:f32[3]" + to + "float32\", weak_type=false] a in (c,)");
  expect_kept("a:f64[3]", "b:f32[3]" + to + "float32\", weak_type=false] a\n c:f64[3]" + to +
                              "float64\", weak_type=false] b in (c,)");
  expect_kept("a:i32[3]", "b:f32[3]" + to + "float32\", weak_type=false] a\n c:i32[3]" + to +
                              "int32\", weak_type=false] b in (c,)");
}

TEST(ArithmeticRules, SpikesForgetTheirSlope) {
  expect_becomes(
      "a:f32[3]",
      "b:f32[3] = abs a\n c:f32[3] = stop_gradient b\n d:f32[3] = heaviside_surrogate_gradient a c "
      "in (d,)",
      "d:f32[3] = heaviside_surrogate_gradient a 0.0:f32[] in (d,)");
}

TEST(ProductRules, TransposesAreNamesOfAxes) {
  const std::string dot = " = dot_general[dimension_numbers=",
                    type = ", preferred_element_type=\"float32\"] ";
  expect_becomes("a:f32[5,4] b:f32[3,5]",
                 "c:f32[4,5] = transpose[permutation=[1,0]] a\n d:f32[5,3] = transpose[permutation=[1,0]] b\n"
                 "e:f32[4,3]" +
                     dot + "[[[1],[0]],[[],[]]]" + type + "c d in (e,)",
                 "e:f32[4,3]" + dot + "[[[0],[1]],[[],[]]]" + type + "a b in (e,)");
  expect_becomes("a:f32[5,2,4] b:f32[2,3,5]",
                 "c:f32[2,4,5] = transpose[permutation=[1,2,0]] a\n"
                 "e:f32[2,4,3]" +
                     dot + "[[[2],[2]],[[0],[0]]]" + type + "c b in (e,)",
                 "e:f32[2,4,3]" + dot + "[[[0],[2]],[[1],[0]]]" + type + "a b in (e,)");
  // The free axes would come out in another order; the sum would run in another order.
  expect_kept("a:f32[5,4,2] b:f32[5,3]",
              "c:f32[5,2,4] = transpose[permutation=[0,2,1]] a\n"
              "e:f32[2,4,3]" +
                  dot + "[[[0],[0]],[[],[]]]" + type + "c b in (e,)");
  expect_kept("a:f32[3,5] b:f32[5,3]",
              "c:f32[5,3] = transpose[permutation=[1,0]] a\n"
              "e:f32[]" +
                  dot + "[[[0,1],[0,1]],[[],[]]]" + type + "c b in (e,)");
}

TEST(ProductRules, SumsOverUnitAxesAreNone) {
  const std::string dot = " = dot_general[dimension_numbers=",
                    type = ", preferred_element_type=\"float32\"] ";
  const std::string reshape = " = reshape[dimensions=null, new_sizes=";
  expect_becomes("a:f32[5,4] b:f32[5,3]",
                 "c:f32[1,5,4]" + reshape + "[1,5,4]] a\n d:f32[5,1,3]" + reshape + "[5,1,3]] b\n" +
                     "e:f32[4,3]" + dot + "[[[0,1],[1,0]],[[],[]]]" + type + "c d in (e,)",
                 "e:f32[4,3]" + dot + "[[[0],[0]],[[],[]]]" + type + "a b in (e,)");
  expect_becomes("a:f32[2,5,4] b:f32[2,5,3]",
                 "c:f32[1,2,5,4]" + reshape + "[1,2,5,4]] a\n d:f32[2,1,5,3]" + reshape + "[2,1,5,3]] b\n" +
                     "e:f32[2,4,3]" + dot + "[[[0,2],[1,2]],[[1],[0]]]" + type + "c d in (e,)",
                 "e:f32[2,4,3]" + dot + "[[[1],[1]],[[0],[0]]]" + type + "a b in (e,)");
  // Nothing would go: the operands come in as they are.
  expect_kept("a:f32[1,4] b:f32[1,3]", "e:f32[4,3]" + dot + "[[[0],[0]],[[],[]]]" + type + "a b in (e,)");
}

TEST(ProductRules, ZeroTimesWhatIsFinite) {
  expect_becomes("a:f32[3]",
                 "b:f32[3] = heaviside_surrogate_gradient a 0.0:f32[]\n c:f32[3] = mul 0.0:f32[] b in (c,)",
                 "c:f32[3] = broadcast_in_dim[broadcast_dimensions=[], shape=[3]] 0.0:f32[] in (c,)");
}

TEST(Merging, CommutingOperandsAndLiterals) {
  expect_becomes("a:f32[3] b:f32[3]",
                 "c:f32[3] = mul a b\n d:f32[3] = mul b a\n e:f32[3] = add c 2.0:f32[]\n"
                 "f:f32[3] = add 2.0:f32[] d\n g:f32[3] = sub e f in (g,)",
                 "c:f32[3] = mul a b\n e:f32[3] = add c 2.0:f32[]\n g:f32[3] = sub e e in (g,)");
  expect_kept("a:f32[3] b:f32[3]", "c:f32[3] = max a b\n d:f32[3] = max b a in (c, d)");
}

TEST(Differentiation, ZerosStaySymbolic) {
  const ClosedJaxpr f = make_jaxpr([](ArraySpan a) { return Arrays{a[0] * a[1] + sin(a[1])}; },
                                   Avals{{Dtype::F32, {3}}, {Dtype::F32, {3}}});
  const ClosedJaxpr tangent = make_jaxpr(
      [&](ArraySpan x) {
        return jvp_eval(f.jaxpr, {}, x, Arrays{full_like(x[0], 1.0), full_like(x[1], 0.0)}).dy;
      },
      f.in_avals());
  const ClosedJaxpr lean = simplify(tangent).to_run();
  EXPECT_TRUE(lean.jaxpr.eqns.empty()) << to_string(lean);  // ∂/∂x₀ is x₁
}

}  // namespace
}  // namespace etrace
