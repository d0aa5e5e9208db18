// Data to learn from: samples, each a series of steps with so many channels, and what is to be said of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::data {

// Which part of the data a file says that a sample belongs to.
enum class Given : std::uint8_t { Nothing, Train, Valid, Test };

struct Sample {
  std::int64_t steps = 0;
  std::int32_t label = 0;  // the number of its class; of data without labels kNoLabel is the only one
  Given part = Given::Nothing;
  std::string group = {};  // speaker, user, writer …; empty: not known
  std::string name = {};   // its file or series, where it has one
};

inline constexpr const char* kNoLabel = "(none)";  // the class of samples that nothing is said of

// Where data came from: for people and for run.json.
struct DataFile {
  std::string path;
  std::int64_t bytes = 0;
};

// What a source calls the parts of a sample. By these names it is found again, whatever the order.
struct Columns {
  std::vector<std::string> inputs = {};  // of the channels (where a line is a sample: of its numbers); empty:
                                         // the source has no names for them
  std::string label = {}, series = {};   // empty: there is none, or it has no name
};

// What a run has learned from; other data is matched with it.
struct Expected {
  Columns columns = {};
  std::vector<std::string> classes = {};  // empty: any
};

class Dataset {
 public:
  virtual ~Dataset();

  std::string name;                  // "fashion-mnist"
  std::int64_t channels = 0;         // features of a step
  Columns columns;                   // their names
  std::vector<std::string> classes;  // names of the labels
  std::vector<Sample> samples;
  std::vector<DataFile> files;
  std::vector<std::string> notes;  // what the reader has decided, a line each

  // The series of a sample, [steps, channels], row by row.
  virtual void write(std::size_t sample, float* out) const = 0;

 private:
  friend std::int32_t class_number(Dataset&, const std::string& name);
  std::unordered_map<std::string, std::int32_t> numbers_;  // of `classes`, as far as class_number() made them
};

// All numbers in memory, one sample behind the other.
class DenseData : public Dataset {
 public:
  void add(Sample, const std::vector<float>& values);  // values: steps × channels
  void write(std::size_t sample, float* out) const override;

 private:
  std::vector<float> values_;
  std::vector<std::size_t> starts_;
};

// Events (time, channel) in memory; a step counts those of its time, so nothing is as large as the frames.
struct Event {
  std::uint32_t step, channel;
};
class EventData : public Dataset {
 public:
  // The largest count of a step and channel; 0: no limit.
  std::int64_t clip = 0;
  void add(Sample, const std::vector<Event>&);  // InternalError for an event out of the sample
  void write(std::size_t sample, float* out) const override;
  std::size_t events() const { return events_.size(); }

 private:
  std::vector<Event> events_;
  std::vector<std::size_t> starts_;
};

// The number of a class by its name; a new name is a new class.
std::int32_t class_number(Dataset&, const std::string& name);
// Classes in ascending order: by number if all names are numbers, else as texts. Labels follow.
void sort_classes(Dataset&);
// Labels become the numbers of these classes. ValueError names labels that are none of them.
void take_classes(Dataset&, const std::vector<std::string>& classes);

// "3,000 samples of 6 to 92 steps with 13 channels, 10 classes (2,700 for training, 300 for testing)"
std::string describe(const Dataset&);

}  // namespace etrace::data
#pragma GCC visibility pop
