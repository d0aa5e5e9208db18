// Data sets that are known by name: where their files lie once a package has brought them, and which package
// that is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::data {

struct KnownFile {
  std::string name;    // as it lies in the folder of the data set
  std::string sha256;  // as the package ships it; empty where it is made here
};
struct KnownData {
  std::string name, doc;
  std::string format;   // a reader
  std::string package;  // who brings it: "Debian dataset-fashion-mnist", "PyPI aeon 1.6.0"
  // How it gets from there to its files; one of the three is given.
  std::string member;  // of a wheel: the folder inside it that holds them
  std::string place;   // where a Debian package puts them
  std::string made;    // what to type in a checkout, so that a script makes them
  std::string licence;
  std::vector<KnownFile> files;
  std::string path;     // what the reader is given: a file of the folder; empty: the folder
  std::string read;     // options of the reader, "channels=28"
  double memory = 0.0;  // steps for which gates keep at the start, where that learns better
};
const std::vector<KnownData>& known_data();
const KnownData* find_known_data(std::string_view name);  // null if there is none

// The folder in which `etrace data import` keeps data: $ETRACE_DATA, else ~/.local/share/etrace/data.
std::string data_folder();
// What a reader is given for it; empty: it is not installed.
std::string installed_path(const KnownData&);
// ValueError if it is not installed: which package brings it, and what to type.
std::string require_installed(const KnownData&);

// Takes the known data sets out of a wheel (a zip file): files are checked by their SHA-256 before they are
// kept. The names of what was taken. ValueError: the file is no wheel, holds nothing that is known, or
// something else.
std::vector<std::string> import_wheel(const std::string& path);

std::string sha256(std::string_view bytes);  // hexadecimal

}  // namespace etrace::data
#pragma GCC visibility pop
