// What processes that we start leave alone.
#pragma once

#include <spawn.h>

namespace etrace {

// Files that the program has open stay its own: a compiler that inherits one would keep its lock after the
// program has closed it. Last among the actions. glibc has this since 2.34.
inline void close_inherited_files(posix_spawn_file_actions_t& actions) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#else
  (void)actions;
#endif
}

}  // namespace etrace
