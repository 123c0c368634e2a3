# Writes the source of a stand-in for one of CANN's libraries: every function that LIBRARY exports, with nothing in it.
#   cmake -DNM=nm -DLIBRARY=libcann_mla_sim.so -DOUTPUT=stand_in.c -P stand_in.cmake
# The stand-in is linked as a filter of LIBRARY: the linker is content with its symbols, and the loader takes those of
# LIBRARY in their place. Labels, not C functions, because C++ names are mangled.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${NM} could not read ${LIBRARY}")
endif()
string(REGEX MATCHALL " [TW] (acl|Atb|Hccl|cannMlaSim|_ZNK?(3atb|3Mki|2op|9aclTensor))[A-Za-z0-9_]+" lines "${symbols}")
set(text "/* Generated; see stand_in.cmake. */\n")
foreach(line ${lines})
  string(REGEX REPLACE "^ [TW] " "" name "${line}")
  string(APPEND text "__asm__(\".globl ${name}\\n.type ${name}, %function\\n${name}:\\n\");\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
