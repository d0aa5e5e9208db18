// The model of a run: a built-in one, layers in words, or a model file.
#pragma once

#include "train/training.h"

#pragma GCC visibility push(default)
namespace etrace::train {

double memory_of(const TrainSettings&, const Task&);  // that of the settings, or the length of the sequences
// What settings say of their model: a built-in name, "layers type=LIF,size=8; …", or "file NAME CHECKSUM", so
// that a copy of a file is the same model.
std::string model_words(const TrainSettings&);
// The same back: `folder` is that of the run, which holds a copy of a model file. ValueError: it is a file,
// and there is no copy.
void take_model_words(const std::string& words, const std::string& folder, TrainSettings&);
inline constexpr const char* kModelCopy = "model.json";

// The model for so many features of input and output, with initialised states.
ReadyModel model_for(const TrainSettings&, std::int64_t inputs, std::int64_t outputs, double memory,
                     double input_rms);
// Layers of a TOML file: [[layer]] type = "LIF", size = 128 …
std::vector<std::string> read_layers(const std::string& path);

}  // namespace etrace::train
#pragma GCC visibility pop
