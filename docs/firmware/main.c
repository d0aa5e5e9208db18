/* An example: sensor learns online to tell the next values of a noisy sensor. Replace sensor() by yours. Prints
 * the mean loss of every 100 steps. */
#include "board.h"
#include "sensor.h"

#ifndef STEPS
#define STEPS 2000
#endif
#define CHANNELS SENSOR_X_SIZE

static uint32_t seed = 12345;
static float noise(void) { /* -1 … 1 */
  seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
  return (float)(int32_t)(seed >> 8) * 0x1p-23f - 1.0f;
}

/* Oscillators of different periods; what is read has noise, what is to be learned has none. */
static float sine[CHANNELS], cosine[CHANNELS];
static void sensor(float* reading) {
  int i;
  for (i = 0; i < CHANNELS; ++i) {
    const float speed = 0.1f + 0.03f * (float)i;
    if (sine[i] == 0.0f && cosine[i] == 0.0f) cosine[i] = 1.0f;
    sine[i] += speed * cosine[i];
    cosine[i] -= speed * sine[i];
    reading[i] = sine[i] + 0.1f * noise();
  }
}

static void put_number(int32_t n) {
  char text[12];
  int i = 11;
  text[i] = 0;
  do text[--i] = (char)('0' + n % 10), n /= 10;
  while (n != 0);
  board_put(text + i);
}

int main(void) {
  static float x[SENSOR_X_SIZE];
  static float target[SENSOR_TARGET_SIZE];
  static float y[SENSOR_Y_SIZE];
  static float reading[CHANNELS], next[CHANNELS];
  float sum = 0.0f;
  int step, i;
  if (!sensor_init()) {
    board_put("compile with -ffp-contract=off\n");
    board_exit(2);
  }
  sensor(next);
  for (step = 1; step <= STEPS; ++step) {
    for (i = 0; i < CHANNELS; ++i) reading[i] = next[i];
    sensor(next);
    for (i = 0; i < SENSOR_X_SIZE; ++i) x[i] = (float)reading[i];
    for (i = 0; i < SENSOR_TARGET_SIZE; ++i) target[i] = (float)sine[i % CHANNELS];
    if (!sensor_step_target(x, target, y)) board_put("not finite\n");
    sum += (float)sensor_loss();
    if (step % 100 == 0) {
      board_put("step ");
      put_number(step);
      board_put("  loss of the last 100, in millionths: ");
      put_number((int32_t)(sum * 1e4f));
      board_put("\n");
      sum = 0.0f;
    }
  }
  board_exit(0);
  return 0;
}
