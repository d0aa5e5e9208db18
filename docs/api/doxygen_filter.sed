#!/bin/sed -Ef
# Whole lines of comment before a declaration, and what stands behind one.
/^ *\/\/ -{4,}/d
s%^((struct|class|enum class) [A-Za-z_:]+(;| : [a-z_:0-9]+;)) +//.*$%\1%
s%^( *)// ?(.*)$%\1/// \2%
s%([;,{}]) +// ?(.*)$%\1  ///< \2%
