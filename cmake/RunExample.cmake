# Runs PROGRAM; fails unless it exits with 0 and ends with the line that SOURCE promises. The promise is a line
# of its own, `// last line: …`: an example without one fails, too, so that a comment that was reflowed shows.
file(STRINGS "${SOURCE}" promise ENCODING UTF-8 REGEX "last line: ")
list(LENGTH promise promises)
if(NOT promises EQUAL 1 OR NOT promise MATCHES "^// last line: *(.*[^ ]) *$")
  message(FATAL_ERROR "${SOURCE} has no line that begins with `// last line: ` and says what it prints last; "
                      "put an empty comment line before it, so that it is not joined to the text")
endif()
set(promise "${CMAKE_MATCH_1}")

execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE code
                OUTPUT_STRIP_TRAILING_WHITESPACE)
message("${output}\n${errors}")
if(NOT code STREQUAL "0")
  message(FATAL_ERROR "${PROGRAM} ended with ${code}")
endif()
string(REGEX REPLACE "^.*\n" "" last "${output}")
if(NOT last STREQUAL promise)
  message(FATAL_ERROR "last line\n  is       ${last}\n  expected ${promise}")
endif()
