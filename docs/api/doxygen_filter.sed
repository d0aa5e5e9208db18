#!/bin/sed -Ef
# Whole lines of comment before a declaration, and what stands behind one.
/^ *\/\/ -{4,}/d
s%^( *)// ?(.*)$%\1/// \2%
s%([;,{}]) +// ?(.*)$%\1  ///< \2%
