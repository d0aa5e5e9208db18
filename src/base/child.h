// Work that may crash, hang or take any memory: the libraries of others on files of others. It is done in a
// process of its own with limits, which hands numbers and texts back through a pipe and ends with its parent.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

struct ChildLimits {
  std::uint64_t seconds = 10;                     // of processor time
  std::uint64_t bytes = std::uint64_t{1} << 30U;  // beyond what this process has
};

// What the child writes and the parent reads, in the same order: records, each begun when all of it is known.
class ChildWriter {
 public:
  explicit ChildWriter(int file) : file_(file) {}
  void begin() { put_number(kRecord); }
  void put(const void* data, std::size_t bytes);
  void put_number(std::int64_t value) { put(&value, sizeof value); }
  void put_text(const std::string&);
  template <class T>
  void put_list(const std::vector<T>& list) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_number(static_cast<std::int64_t>(list.size()));
    put(list.data(), list.size() * sizeof(T));
  }
  void flush();

  static constexpr std::int64_t kRecord = 0x7265636f7264;

 private:
  int file_;
  std::string waiting_;
};
class ChildReader {
 public:
  // `most`: bytes of a list; more is what no sound child writes.
  ChildReader(int file, std::uint64_t most) : file_(file), most_(most) {}
  bool next();                              // whether there is another record
  void get(void* data, std::size_t bytes);  // throws Ended
  std::int64_t number();
  std::string text();
  template <class T>
  std::vector<T> list() {
    std::vector<T> out(size(sizeof(T)));
    get(out.data(), out.size() * sizeof(T));
    return out;
  }
  struct Ended {};                             // the child has ended before it wrote this
  std::int64_t last() const { return last_; }  // what stood in the place of a record

 private:
  std::size_t size(std::size_t of_each);
  int file_;
  std::uint64_t most_;
  std::int64_t last_ = ChildWriter::kRecord;
};

// `work` runs in the child, `take` here at the same time, until there are no more records. An Error that
// `work` throws is thrown here, as ValueError or IoError. IoError: no process could be made. ValueError "WHAT
// …": it was ended by a signal, or by its limits.
void in_child(const std::string& what, const ChildLimits&, const std::function<void(ChildWriter&)>& work,
              const std::function<void(ChildReader&)>& take);

// In a process just forked: it ends when the thread that forked it does. False: the parent has ended already.
bool end_with_parent(int parent);

}  // namespace etrace
#pragma GCC visibility pop
