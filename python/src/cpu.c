/* etrace._cpu: what the CPU lacks of the instructions that the library is compiled for. It links nothing of
   the library, so that it can be asked before the library is loaded. */
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

static PyObject* missing(PyObject* self, PyObject* none) {
  (void)self;
  (void)none;
#if defined(__x86_64__) && !defined(ETRACE_NATIVE)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2")) return PyUnicode_FromString("AVX2");
  if (!__builtin_cpu_supports("fma")) return PyUnicode_FromString("FMA");
  if (!__builtin_cpu_supports("bmi2")) return PyUnicode_FromString("BMI2");
#endif
  Py_RETURN_NONE;
}

static PyObject* main_interpreter(PyObject* self, PyObject* none) {
  (void)self;
  (void)none;
  return PyBool_FromLong(PyInterpreterState_GetID(PyInterpreterState_Get()) == 0);
}

static PyMethodDef methods[] = {
    {"main_interpreter", main_interpreter, METH_NOARGS, "Whether this is the process's first interpreter."},
    {"missing", missing, METH_NOARGS, "The name of the first instruction set that is missing, or None."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_cpu", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__cpu(void) { return PyModule_Create(&module); }
