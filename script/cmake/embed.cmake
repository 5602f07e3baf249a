# SPDX-License-Identifier: Apache-2.0
# cmake -DFROM=FILE -DTO=FILE.c -DHEADER=HEADER -DNAME=NAME -P embed.cmake: a C file with the text of FROM,
# followed by a zero.
file(READ ${FROM} text HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," text "${text}")
string(REGEX REPLACE "(................................................................................)" "\\1\n"
    text "${text}")
file(WRITE ${TO} "/* Made of ${NAME}. */\n#include \"${HEADER}\"\n\nconst char ${NAME}[] = {\n${text}0};\n")
