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
inline constexpr const char* kOwnModel = "module.json";  // what a model of the program's own is called
// The text of the model file: in memory, or read. How many samples its step is for; none: for one.
std::string model_file_text(const TrainSettings&);
std::optional<std::int64_t> batch_of_model(const TrainSettings&);
// One step of the module of the settings, for batches of their size, becomes their model file; the module is
// no longer part of them. Settings are resolved.
void record_module(TrainSettings&, const Task&);

// Layers in words, "type=LIF,size=8"; options.sizes: features of input and output.
ReadyModel layered_model(const std::vector<std::string>& layers, const ModelOptions&);
// The model for so many features of input and output, with initialised states.
ReadyModel model_for(const TrainSettings&, std::int64_t inputs, std::int64_t outputs, double memory,
                     double input_rms);
// Layers of a TOML file: [[layer]] type = "LIF", size = 128 …
std::vector<std::string> read_layers(const std::string& path);

}  // namespace etrace::train
#pragma GCC visibility pop
