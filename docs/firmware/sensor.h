/* sensor.h: a learner, D_RTRL, single-step, sgd
 * Written by etrace 0.1.0, not to be changed by hand. No allocation, no library but memcpy and memset;
 * one instance, not to be called from two threads at once. Every fused multiply-add is spelled out: compile
 * with -ffp-contract=off (the default of -std=c99) and without -ffast-math, with -fno-math-errno to use the
 * machine's square root. The bits are then those of the native engine, on every machine. */
#ifndef SENSOR_H
#define SENSOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SENSOR_X_SIZE 3
#define SENSOR_Y_SIZE 3
#define SENSOR_TARGET_SIZE 3
#define SENSOR_RAM_BYTES 7470 /* static */
#define SENSOR_STACK_BYTES 680 /* at most, for the functions below */
#define SENSOR_CONSTANT_BYTES 3848 /* in flash, beside the code */

/* Parameters, states and traces as they were when this was written. 0: the compiler has put products and
 * sums together that must stay apart; see above. */
int sensor_init(void);

/* One step: y from x. States and traces move on. Returns 1; or 0 if anything was, or would have become,
 * infinite or NaN: then nothing has changed, and y is not to be used. Arrays must not overlap. */
int sensor_step(const float* x, float* y);

/* The same with a target: the loss, its gradient, and an update of the parameters. */
int sensor_step_target(const float* x, const float* target, float* y);
float sensor_loss(void); /* of the last step with a target */

/* sgd/lr */
void sensor_set_learning_rate(double rate);

/* What is carried on, by name. */
extern float sensor_param_rnn_Wz_weight_bias[16]; /* param rnn/Wz/weight.bias f32[16] */
extern float sensor_param_rnn_Wz_weight_weight[304]; /* param rnn/Wz/weight.weight f32[19,16] */
extern float sensor_param_rnn_Wr_weight_bias[16]; /* param rnn/Wr/weight.bias f32[16] */
extern float sensor_param_rnn_Wr_weight_weight[304]; /* param rnn/Wr/weight.weight f32[19,16] */
extern float sensor_param_rnn_Wh_weight_bias[16]; /* param rnn/Wh/weight.bias f32[16] */
extern float sensor_param_rnn_Wh_weight_weight[304]; /* param rnn/Wh/weight.weight f32[19,16] */
extern float sensor_param_out_weight_bias[3]; /* param out/weight.bias f32[3] */
extern float sensor_param_out_weight_weight[48]; /* param out/weight.weight f32[16,3] */
extern float sensor_state_rnn_h[16]; /* state rnn/h f32[16] */
extern float sensor_trace_relation0_group0_weight[304]; /* trace relation0/group0/weight f32[1,1,19,16] */
extern float sensor_trace_relation0_group0_bias[16]; /* trace relation0/group0/bias f32[1,1,16] */
extern float sensor_trace_relation1_group0_weight[304]; /* trace relation1/group0/weight f32[1,1,19,16] */
extern float sensor_trace_relation1_group0_bias[16]; /* trace relation1/group0/bias f32[1,1,16] */
extern int32_t sensor_counter_age[1]; /* counter age i32[] */
extern int32_t sensor_counter_calls[1]; /* counter calls i32[] */
extern int32_t sensor_optimizer_slot_optimizer_step[1]; /* optimizer_slot optimizer/step i32[] */
extern double sensor_hyperparameter_sgd_lr[1]; /* hyperparameter sgd/lr f64[] */

/* The same by path. type: "f32", "i32" …. */
typedef struct sensor_array {
  const char *role, *path, *type;
  const void* data;
  uint32_t size; /* elements */
  uint32_t bytes;
  uint8_t constant;
} sensor_array;
#define SENSOR_ARRAYS 17
extern const sensor_array sensor_arrays[SENSOR_ARRAYS];
const sensor_array* sensor_find(const char* role, const char* path); /* null: there is none */

#ifdef __cplusplus
}
#endif

#endif /* SENSOR_H */
