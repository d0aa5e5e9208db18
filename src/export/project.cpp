// Programs around an exported model.
#include <fmt/format.h>

#include "etrace/emission.h"
#include "etrace/error.h"
#include "etrace/export.h"
#include "export/project_files.h"

namespace etrace {

namespace {

std::string replaced(std::string text, const std::string& mark, const std::string& value) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
    text.replace(at, mark.size(), value);
  return text;
}

// Types of the model's first input and output and of the target.
std::string with_types(std::string text, const ExportedModel& m) {
  if (m.inputs.size() != 1 || m.outputs.size() != 1)
    throw NotSupportedError("export",
                            fmt::format("the example is for models with one input and one output; this "
                                        "one has {} and {}",
                                        m.inputs.size(), m.outputs.size()));
  const auto type = [](const Aval& a) { return std::string(c_type(a.dtype)); };
  const bool number = is_floating(m.target.dtype);
  text = replaced(text, "@MAKE_TARGET@",
                  number ? fmt::format("({})sine[i % CHANNELS]", type(m.target))
                         : fmt::format("({})(sine[i % CHANNELS] > 0.0f)", type(m.target)));
  text = replaced(text, "@X@", type(m.inputs[0]));
  text = replaced(text, "@TARGET@", type(m.target));
  return replaced(text, "@Y@", type(m.outputs[0]));
}

}  // namespace

void add_project(ExportedModel& m, const ExportTarget& t) {
  const bool host = t.compiler.empty();
  const std::string startup = host ? "host.c" : std::string(t.startup), linker(t.linker);
  const auto add = [&](const std::string& file) {
    m.files.push_back({file, device::project_file(file, m.name)});
  };
  add("board.h");
  add(startup);
  if (!host) add(linker);
  m.files.push_back({"main.c", with_types(device::project_file("main.c", m.name), m)});
  std::string make = device::project_file("Makefile", m.name);
  make = replaced(make, "@CC@", host ? "cc" : std::string(t.compiler));
  make = replaced(make, "@FLAGS@", host ? "-ffp-contract=off -fno-math-errno" : std::string(t.flags));
  make = replaced(make, "@STARTUP@", startup);
  make = replaced(make, " @LINKER@", host ? "" : " " + linker);
  make = replaced(make, " @T@", host ? "" : " -T" + linker);
  make = replaced(make, "@LIBS@", host ? "-lm" : "-lgcc");
  make = replaced(make, "@RUN@",
                  host ? fmt::format("./{}.elf", m.name)
                       : fmt::format("{} -M {}{} -nographic -monitor none -serial none -semihosting-config "
                                     "enable=on,target=native -icount shift=0 -kernel {}.elf",
                                     t.emulator, t.machine, t.name == "rv32" ? " -bios none" : "", m.name));
  m.files.push_back({"Makefile", make});
}

void add_arduino(ExportedModel& m) {
  const std::string folder = m.name + "_arduino/";
  const std::vector<ExportedFile> own(m.files.begin(), m.files.begin() + 2);
  for (const ExportedFile& f : own) m.files.push_back({folder + "src/" + f.path, f.text});
  m.files.push_back({folder + "library.properties", device::project_file("library.properties", m.name)});
  m.files.push_back(
      {folder + "examples/learn/learn.ino", with_types(device::project_file("sketch.ino", m.name), m)});
}

}  // namespace etrace
