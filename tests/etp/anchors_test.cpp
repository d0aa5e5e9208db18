// The anchor maps of all operators against the Jacobians of their forward functions, and maps that are wrong
// on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Array draw_positive(std::uint64_t seed, const Shape& shape) {
  return random::uniform(random::key(seed), shape, Dtype::F64, 0.5, 1.5);
}

std::vector<const Primitive*> operators() {
  std::vector<const Primitive*> out;
  for (const Primitive* p : primitives())
    if (is_etp(*p) && p->name().starts_with("etp_")) out.push_back(p);
  return out;
}

TEST(Anchors, ThirteenOperatorsAreThere) {
  std::vector<std::string> batched, enabled;
  for (const Primitive* p : operators()) {
    if (etp_rules(*p)->batched) batched.emplace_back(p->name());
    if (etp_rules(*p)->gradient_enabled) enabled.emplace_back(p->name());
  }
  EXPECT_GE(operators().size(), 13U);
  EXPECT_THAT(batched, ::testing::IsSupersetOf({"etp_conv", "etp_einsum", "etp_emb", "etp_gmm", "etp_lora_mm",
                                                "etp_mm", "etp_sp_mm"}));
  EXPECT_THAT(enabled, ::testing::Contains("etp_elemwise"));
  EXPECT_FALSE(is_etp(tanh_p));
}

TEST(Anchors, HoldForAllOperators) {
  for (const Primitive* p : operators())
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(std::string(p->name()) + ", seed " + std::to_string(seed));
      EXPECT_NO_THROW(validate_etp(*p, p->spec.samples(seed)));
    }
}

AnchorMap anchors_of(const Primitive& p, std::string_view key, const Arrays& operands, const Params& params) {
  const Avals in = avals_of(operands);
  return etp_rules(p)->anchors(params, key, in, abstract_eval(p, params, in)[0]);
}

TEST(Anchors, Layouts) {
  const Params biased{{"has_bias", true},
                      {"strides", Dims{1, 1}},
                      {"padding", "VALID"},
                      {"dimension_numbers", Attr::list({"NHWC", "HWIO", "NHWC"})}};
  const Arrays conv_operands{draw_positive(1, {2, 5, 4, 3}), draw_positive(2, {2, 2, 3, 6}),
                             draw_positive(3, {6})};
  const AnchorMap kernel = anchors_of(etp_conv_p, "weight", conv_operands, biased);
  EXPECT_EQ(kernel.slots, (Shape{4, 3, 2, 2, 3, 6}));
  EXPECT_EQ(kernel.y_axes, (std::vector<int>{0, 1, 5}));
  EXPECT_EQ(kernel.position_axes, (std::vector<int>{0, 1}));
  const AnchorMap bias = anchors_of(etp_conv_p, "bias", conv_operands, biased);
  EXPECT_EQ(bias.slots, (Shape{4, 3, 6}));
  EXPECT_EQ(bias.position_axes, (std::vector<int>{0, 1}));

  const AnchorMap shared =
      anchors_of(etp_einsum_p, "weight", {draw_positive(1, {2, 3, 4}), draw_positive(2, {4, 5})},
                 {{"equation", "btk,kn->btn"}});
  EXPECT_EQ(shared.slots, (Shape{3, 4, 5}));
  EXPECT_EQ(shared.y_axes, (std::vector<int>{0, 2}));
  EXPECT_EQ(shared.position_axes, (std::vector<int>{0}));

  const Params sparse{{"sparse_mat", SparsePattern::coo(3, 4, {2, 0}, {1, 3}).to_attr()}};
  EXPECT_EQ(anchors_of(etp_sp_mv_p, "weight", {draw_positive(1, {3}), draw_positive(2, {2})}, sparse).table,
            (Dims{1, 3}));

  const Arrays lora{draw_positive(1, {2, 4}), draw_positive(2, {4, 2}), draw_positive(3, {2, 5})};
  EXPECT_EQ(anchors_of(etp_lora_mm_p, "lora_b", lora, {}).slots, (Shape{4, 5}));
  EXPECT_EQ(anchors_of(etp_lora_mm_p, "lora_a", lora, {}).slots, (Shape{2, 5}));
}

TEST(Anchors, ABiasThatDiffersBetweenSamplesIsNotLearnedOnline) {
  const Arrays operands{draw_positive(1, {2, 1, 4}), draw_positive(2, {3, 1, 1}),
                        draw_positive(3, {2, 3, 1})};
  EXPECT_THROW(anchors_of(etp_conv_p, "bias", operands, {{"has_bias", true}}), NotSupportedError);
}

// Rows that are wrong on purpose: the forward function of etp_mv with other rules.
std::string refusal(const Primitive& prim, const Arrays& operands, const Params& params = {}) {
  try {
    validate_etp(prim, {{operands, params}});
  } catch (const CompilationError& e) {
    return e.what();
  }
  return "accepted";
}

std::vector<Trainable> weight(const Params&) { return {{"weight", 1}}; }

PrimitiveSpec mv_with(const std::string& name, const EtpRules& rules) {
  return {.name = name,
          .doc = "wrong on purpose",
          .abstract = etp_mv_p.spec.abstract,
          .lower = etp_mv_p.spec.lower,
          .etp = make_etp(rules)};
}

const EtpRules input_axis_rules{
    .trainables = weight,
    .anchors = [](const Params&, std::string_view, std::span<const Aval> in, const Aval&) {
      return AnchorMap{in[1].shape, {0}, {}, {}};
    }};
const EtpRules missing_axis_rules{
    .trainables = weight,
    .anchors = [](const Params&, std::string_view, std::span<const Aval> in, const Aval&) {
      return AnchorMap{in[1].shape, {}, {}, {}};
    }};
const EtpRules wrong_slots_rules{
    .trainables = weight,
    .anchors = [](const Params&, std::string_view, std::span<const Aval> in, const Aval&) {
      return AnchorMap{in[0].shape, {0}, {}, {}};
    }};
const EtpRules twice_rules{
    .trainables = weight,
    .anchors = [](const Params&, std::string_view, std::span<const Aval> in, const Aval&) {
      return AnchorMap{in[1].shape.with_front(2), {2}, {}, {0}};
    }};
const EtpRules table_rules{
    .trainables = weight,
    .anchors = [](const Params&, std::string_view, std::span<const Aval> in, const Aval&) {
      Dims table(static_cast<std::size_t>(in[1].shape.size()), 0);
      return AnchorMap{in[1].shape, {}, table, {}};
    }};
const EtpRules no_anchor_rules{.trainables = weight};
const EtpRules form_rules{
    .batched_form = &etp_mv_p, .trainables = weight, .anchors = input_axis_rules.anchors};

// LoRA with an effective weight that lacks alpha.
const EffectiveWeight unscaled{.key = "lora_b",
                               .weight = [](const Params&, ArraySpan x) { return matmul_plain(x[1], x[2]); },
                               .forward = etp_rules(etp_lora_mv_p)->effective->forward};
const EtpRules unscaled_rules{.trainables = etp_rules(etp_lora_mv_p)->trainables,
                              .anchors = etp_rules(etp_lora_mv_p)->anchors,
                              .effective = unscaled};
const Primitive unscaled_lora{{.name = "test_unscaled_lora",
                               .doc = "wrong on purpose",
                               .abstract = etp_lora_mv_p.spec.abstract,
                               .lower = etp_lora_mv_p.spec.lower,
                               .etp = make_etp(unscaled_rules)}};

// At namespace scope, because rows register themselves for good.
const Primitive wrong_axis{mv_with("test_wrong_axis", input_axis_rules)};
const Primitive missing_axis{mv_with("test_missing_axis", missing_axis_rules)};
const Primitive wrong_slots{mv_with("test_wrong_slots", wrong_slots_rules)};
const Primitive twice{mv_with("test_twice", twice_rules)};
const Primitive wrong_table{mv_with("test_wrong_table", table_rules)};
const Primitive no_anchors{mv_with("test_no_anchors", no_anchor_rules)};
const Primitive wrong_form{mv_with("test_wrong_form", form_rules)};

TEST(Anchors, WrongRulesAreRefused) {
  const Arrays square{draw_positive(1, {3}), draw_positive(2, {3, 3})};
  EXPECT_THAT(refusal(wrong_axis, square),
              AllOf(HasSubstr("[test_wrong_axis] trainable 'weight'"), HasSubstr("slot [1, 0]"),
                    HasSubstr("position [1]"), HasSubstr("acts on position [0]")));
  EXPECT_THAT(refusal(wrong_axis, {draw_positive(1, {2}), draw_positive(2, {2, 3})}),
              HasSubstr("cannot take its index"));
  EXPECT_THAT(refusal(missing_axis, square), HasSubstr("y_axes has 0 entries"));
  EXPECT_THAT(refusal(wrong_slots, square), HasSubstr("do not match the parameter's shape [3,3]"));
  EXPECT_THAT(refusal(twice, square), HasSubstr("is the second one"));
  EXPECT_THAT(refusal(wrong_table, square), HasSubstr("acts on position [1]"));
  EXPECT_THAT(refusal(no_anchors, square), HasSubstr("needs lower, trainables and anchors"));
  EXPECT_THAT(refusal(wrong_form, square), HasSubstr("etp_mv"));
  const Arrays lora{draw_positive(1, {3}), draw_positive(2, {3, 1}), draw_positive(3, {1, 2})};
  EXPECT_THAT(refusal(unscaled_lora, lora, {{"alpha", 2.0}}), HasSubstr("the effective weight gives y"));
  EXPECT_EQ(refusal(unscaled_lora, lora, {{"alpha", 1.0}}), "accepted");
  EXPECT_THAT(refusal(tanh_p, {draw_positive(1, {3})}), HasSubstr("no etp rules"));
}

}  // namespace
}  // namespace etrace
