// The C interface of HDF5 1.10 to 1.14, of which a few functions are looked up by name. Their types are the
// same in all of these versions.
#include "data/hdf5.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include "etrace/error.h"

namespace etrace::data {

namespace {

using Id = std::int64_t;
using Size = unsigned long long;
constexpr Id kDefault = 0;
constexpr int kVariableLength = 9, kString = 3;  // classes of types

struct Varying {  // a row of variable length
  std::size_t length;
  void* values;
};

constexpr const char* kLibraries[] = {
    "libhdf5_serial.so.103", "libhdf5.so.103", "libhdf5_serial.so.310", "libhdf5.so.310", "libhdf5.so.200",
    "libhdf5_serial.so",     "libhdf5.so"};

// The functions that are used, by their names in the library.
struct Api {
  void* library = nullptr;
  std::string name;
  int (*open)();
  int (*silence)(Id, void*, void*);
  Id (*file_open)(const char*, unsigned, Id);
  int (*file_close)(Id);
  int (*link_exists)(Id, const char*, Id);
  Id (*data_open)(Id, const char*, Id);
  int (*data_close)(Id);
  Id (*data_space)(Id);
  Id (*data_type)(Id);
  int (*data_read)(Id, Id, Id, Id, Id, void*);
  int (*reclaim)(Id, Id, Id, void*);
  int (*space_rank)(Id);
  int (*space_sizes)(Id, Size*, Size*);
  Id (*space_make)(int, const Size*, const Size*);
  int (*space_select)(Id, int, const Size*, const Size*, const Size*, const Size*);
  int (*space_close)(Id);
  int (*type_class)(Id);
  Id (*type_vlen)(Id);
  Id (*type_copy)(Id);
  int (*type_set_size)(Id, std::size_t);
  int (*type_is_variable_string)(Id);
  std::size_t (*type_size)(Id);
  int (*type_close)(Id);
  const Id *native_float, *native_integer, *c_string;

  Api() {
    for (const char* candidate : kLibraries) {
      library = dlopen(candidate, RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) {
        name = candidate;
        break;
      }
    }
    if (library == nullptr) return;
    const auto find = [&](auto& f, const char* symbol) {
      f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(library, symbol));
      if (f == nullptr) complete = false;
    };
    find(open, "H5open");
    find(silence, "H5Eset_auto2");
    find(file_open, "H5Fopen");
    find(file_close, "H5Fclose");
    find(link_exists, "H5Lexists");
    find(data_open, "H5Dopen2");
    find(data_close, "H5Dclose");
    find(data_space, "H5Dget_space");
    find(data_type, "H5Dget_type");
    find(data_read, "H5Dread");
    find(reclaim, "H5Dvlen_reclaim");
    find(space_rank, "H5Sget_simple_extent_ndims");
    find(space_sizes, "H5Sget_simple_extent_dims");
    find(space_make, "H5Screate_simple");
    find(space_select, "H5Sselect_hyperslab");
    find(space_close, "H5Sclose");
    find(type_class, "H5Tget_class");
    find(type_vlen, "H5Tvlen_create");
    find(type_copy, "H5Tcopy");
    find(type_set_size, "H5Tset_size");
    find(type_is_variable_string, "H5Tis_variable_str");
    find(type_size, "H5Tget_size");
    find(type_close, "H5Tclose");
    if (complete) open();
    find(native_float, "H5T_NATIVE_FLOAT_g");
    find(native_integer, "H5T_NATIVE_LLONG_g");
    find(c_string, "H5T_C_S1_g");
    if (complete) silence(kDefault, nullptr, nullptr);  // errors are told by us
  }
  bool complete = true;
};

Api& api() {
  static Api functions;
  return functions;
}

// Closes what it holds.
class Handle {
 public:
  Handle(Id id, int (*close)(Id)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator Id() const { return id_; }  // NOLINT: it stands for what it holds

 private:
  Id id_;
  int (*close_)(Id);
};

}  // namespace

std::string hdf5_library() { return api().library != nullptr && api().complete ? api().name : std::string(); }

struct Hdf5File::State {
  std::string path;
  Size bytes = 0;
  Id file = -1;
  ~State() {
    if (file >= 0) api().file_close(file);
  }
  [[noreturn]] void fail(const std::string& dataset, const std::string& what) const {
    throw ValueError("data", fmt::format("'{}', {}: {}", path, dataset, what));
  }
  void require_rows(const std::string& dataset, Size rows) const {
    if (rows > bytes) fail(dataset, fmt::format("{} rows in a file of {} bytes", rows, bytes));
  }
  // The sizes of an open data set.
  std::vector<Size> sizes(const std::string& name, Id dataset) const {
    const Handle space(api().data_space(dataset), api().space_close);
    const int rank = space < 0 ? -1 : api().space_rank(space);
    if (rank < 0) fail(name, "its sizes cannot be read");
    std::vector<Size> out(static_cast<std::size_t>(rank));
    if (rank > 0 && api().space_sizes(space, out.data(), nullptr) < 0) fail(name, "its sizes cannot be read");
    return out;
  }
  template <class T>
  std::vector<std::vector<T>> read_rows(const std::string& name, std::int64_t first, std::int64_t count,
                                        Id native) const;
  template <class T>
  std::vector<std::vector<T>> read_varying(const std::string& name, Id dataset, Id from, Id to,
                                           std::int64_t first, std::int64_t count, Id native) const;
};

namespace {
// Sizes are checked before memory is taken. A row takes at least a byte of the file, and packed numbers are
// what deflate reaches at most.
constexpr Size kMostRatio = 1032;
}  // namespace

template <class T>
std::vector<std::vector<T>> Hdf5File::State::read_varying(const std::string& name, Id dataset, Id from, Id to,
                                                          std::int64_t first, std::int64_t count,
                                                          Id native) const {
  const Handle type(api().type_vlen(native), api().type_close);
  std::vector<Varying> rows(static_cast<std::size_t>(count));
  if (api().data_read(dataset, type, to, from, kDefault, rows.data()) < 0)
    fail(name, fmt::format("rows {} to {} cannot be read; the file is damaged or ends too early", first,
                           first + count - 1));
  std::vector<std::vector<T>> out;
  for (const Varying& r : rows) {
    const auto* values = static_cast<const T*>(r.values);
    out.emplace_back(values, values + r.length);
  }
  api().reclaim(type, to, kDefault, rows.data());
  return out;
}

template <class T>
std::vector<std::vector<T>> Hdf5File::State::read_rows(const std::string& name, std::int64_t first,
                                                       std::int64_t count, Id native) const {
  const Handle dataset(api().data_open(file, name.c_str(), kDefault), api().data_close);
  if (dataset < 0) fail(name, "there is no such data set");
  const std::vector<Size> all = sizes(name, dataset);
  const Handle stored(api().data_type(dataset), api().type_close);
  const bool varying = api().type_class(stored) == kVariableLength;
  if (all.size() != (varying ? 1U : 2U))
    fail(name, fmt::format("{} axes; expected rows of variable length or a matrix", all.size()));
  require_rows(name, all[0]);
  if (first < 0 || count < 0 || static_cast<Size>(first) + static_cast<Size>(count) > all[0])
    fail(name, fmt::format("rows {} to {} of {}", first, first + count - 1, all[0]));
  if (count == 0) return {};
  if (!varying && all[1] > kMostRatio * bytes / std::max<Size>(1, static_cast<Size>(count)))
    fail(name, "its rows are longer than the file can hold");
  const std::vector<Size> start{static_cast<Size>(first), 0},
      part{static_cast<Size>(count), varying ? 1 : all[1]};
  const int rank = varying ? 1 : 2;
  const Handle from(api().data_space(dataset), api().space_close),
      to(api().space_make(rank, part.data(), nullptr), api().space_close);
  if (api().space_select(from, 0, start.data(), nullptr, part.data(), nullptr) < 0)
    fail(name, "its rows cannot be chosen");
  if (varying) return read_varying<T>(name, dataset, from, to, first, count, native);
  std::vector<T> flat(part[0] * part[1]);
  if (api().data_read(dataset, native, to, from, kDefault, flat.data()) < 0)
    fail(name, fmt::format("rows {} to {} cannot be read; the file is damaged or ends too early", first,
                           first + count - 1));
  std::vector<std::vector<T>> out;
  for (std::size_t r = 0; r < part[0]; ++r)
    out.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(r * part[1]),
                     flat.begin() + static_cast<std::ptrdiff_t>((r + 1) * part[1]));
  return out;
}

void require_hdf5(const std::string& path) {
  if (hdf5_library().empty())
    throw IoError("data",
                  fmt::format("'{}' needs HDF5, and its library is not installed: on Debian `apt-get install "
                              "libhdf5-103-1`",
                              path));
}

Hdf5File::Hdf5File(const std::string& path) : state_(std::make_unique<State>()) {
  require_hdf5(path);
  std::error_code error;
  state_->path = path;
  state_->bytes = std::filesystem::file_size(path, error);
  if (error) state_->bytes = 0;
  state_->file = api().file_open(path.c_str(), 0, kDefault);
  if (state_->file < 0) throw ValueError("data", fmt::format("'{}' is no HDF5 file, or it is damaged", path));
}
Hdf5File::~Hdf5File() = default;
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;

bool Hdf5File::has(const std::string& dataset) const {
  // Every group on the way must be there before it is asked for what it holds.
  for (std::size_t at = dataset.find('/');; at = dataset.find('/', at + 1)) {
    if (api().link_exists(state_->file, dataset.substr(0, at).c_str(), kDefault) <= 0) return false;
    if (at == std::string::npos) return true;
  }
}

std::int64_t Hdf5File::rows(const std::string& name) const {
  const Handle dataset(api().data_open(state_->file, name.c_str(), kDefault), api().data_close);
  if (dataset < 0) state_->fail(name, "there is no such data set");
  const std::vector<Size> sizes = state_->sizes(name, dataset);
  if (sizes.empty()) state_->fail(name, "a single number; expected rows");
  state_->require_rows(name, sizes[0]);
  return static_cast<std::int64_t>(sizes[0]);
}

std::vector<std::vector<float>> Hdf5File::float_rows(const std::string& name, std::int64_t first,
                                                     std::int64_t count) const {
  return state_->read_rows<float>(name, first, count, *api().native_float);
}
std::vector<std::vector<std::int64_t>> Hdf5File::integer_rows(const std::string& name, std::int64_t first,
                                                              std::int64_t count) const {
  return state_->read_rows<std::int64_t>(name, first, count, *api().native_integer);
}

std::vector<std::int64_t> Hdf5File::integers(const std::string& name) const {
  const Handle dataset(api().data_open(state_->file, name.c_str(), kDefault), api().data_close);
  if (dataset < 0) state_->fail(name, "there is no such data set");
  const std::vector<Size> sizes = state_->sizes(name, dataset);
  if (sizes.size() != 1) state_->fail(name, "expected one axis of numbers");
  state_->require_rows(name, sizes[0]);
  std::vector<std::int64_t> out(sizes[0]);
  if (api().data_read(dataset, *api().native_integer, kDefault, kDefault, kDefault, out.data()) < 0)
    state_->fail(name, "it cannot be read as whole numbers");
  return out;
}

std::vector<std::string> Hdf5File::strings(const std::string& name) const {
  const Handle dataset(api().data_open(state_->file, name.c_str(), kDefault), api().data_close);
  if (dataset < 0) state_->fail(name, "there is no such data set");
  const std::vector<Size> sizes = state_->sizes(name, dataset);
  const Handle stored(api().data_type(dataset), api().type_close);
  if (sizes.size() != 1 || api().type_class(stored) != kString)
    state_->fail(name, "expected one axis of texts");
  state_->require_rows(name, sizes[0]);
  std::vector<std::string> out;
  if (api().type_is_variable_string(stored) > 0) {
    std::vector<char*> texts(sizes[0]);
    if (api().data_read(dataset, stored, kDefault, kDefault, kDefault, texts.data()) < 0)
      state_->fail(name, "it cannot be read");
    for (const char* t : texts) out.emplace_back(t == nullptr ? "" : t);
    const Handle space(api().data_space(dataset), api().space_close);
    api().reclaim(stored, space, kDefault, texts.data());
    return out;
  }
  const std::size_t width = api().type_size(stored);
  if (width == 0 || width > kMostRatio * state_->bytes / std::max<Size>(1, sizes[0]))
    state_->fail(name, "texts of a length that cannot be");
  std::vector<char> flat(width * sizes[0]);
  if (api().data_read(dataset, stored, kDefault, kDefault, kDefault, flat.data()) < 0)
    state_->fail(name, "it cannot be read");
  for (std::size_t i = 0; i < sizes[0]; ++i)
    out.emplace_back(flat.data() + i * width, strnlen(flat.data() + i * width, width));
  return out;
}

}  // namespace etrace::data
