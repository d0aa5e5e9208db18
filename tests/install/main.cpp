// Uses an installed etrace the way another project does. Exit code 0: it works.
#include <cstdio>
#include <cstring>

#include "all_headers.h"

int main() {
  if (std::strcmp(etrace::version(), ETRACE_VERSION) != 0) {
    std::printf("headers are %s, library is %s\n", ETRACE_VERSION, etrace::version());
    return 1;
  }
  std::printf("consumer runs with etrace %s\n", etrace::version());
  return 0;
}
