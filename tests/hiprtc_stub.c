#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char notes[1 << 16], failing[64], said[4096], made[4096];
static size_t used, length;
static int failure;
static char* source;
static long alive;

static void note(const char* format, ...) {
    va_list list;
    va_start(list, format);
    used += vsnprintf(notes + used, sizeof notes - used, format, list);
    va_end(list);
}
static int answer(const char* name) { return strcmp(name, failing) == 0 ? failure : 0; }

const char* stub_notes(void) { return notes; }
const char* stub_source(void) { return source ? source : ""; }
long stub_alive(void) { return alive; }
void stub_forget(void) { used = 0; notes[0] = 0; }
void stub_fail(const char* name, int code) { snprintf(failing, sizeof failing, "%s", name); failure = code; }
void stub_give(const char* code, size_t size, const char* log) {
    memcpy(made, code, size);
    length = size;
    snprintf(said, sizeof said, "%s", log);
}

typedef struct { int number; } Program;

const char* hiprtcGetErrorString(int code) {
    return code == 6 ? "HIPRTC_ERROR_COMPILATION" : code == 1 ? "HIPRTC_ERROR_OUT_OF_MEMORY" : "HIPRTC_ERROR_INTERNAL_ERROR";
}
int hiprtcVersion(int* major, int* minor) { *major = 9; *minor = 1; return answer("hiprtcVersion"); }
int hiprtcCreateProgram(Program** out, const char* text, const char* name, int count, const char** headers, const char** names) {
    note("create %s with %d headers\n", name, count);
    for (int i = 0; i < count; ++i) note("header %s of %d\n", names[i], (int)strlen(headers[i]));
    free(source);
    source = strdup(text);
    if (answer("hiprtcCreateProgram")) return failure;
    *out = calloc(1, sizeof(Program));
    (*out)->number = 41;
    ++alive;
    return 0;
}
int hiprtcCompileProgram(Program* program, int count, const char** options) {
    note("compile %d", program->number);
    for (int i = 0; i < count; ++i) note(" %s", options[i]);
    note("\n");
    return answer("hiprtcCompileProgram");
}
int hiprtcGetProgramLogSize(Program* program, size_t* size) { note("size of the log of %d\n", program->number); *size = strlen(said) + 1; return answer("hiprtcGetProgramLogSize"); }
int hiprtcGetProgramLog(Program* program, char* out) { note("log of %d\n", program->number); strcpy(out, said); return answer("hiprtcGetProgramLog"); }
int hiprtcGetCodeSize(Program* program, size_t* size) { note("size of the code of %d\n", program->number); *size = length; return answer("hiprtcGetCodeSize"); }
int hiprtcGetCode(Program* program, char* out) { note("code of %d\n", program->number); memcpy(out, made, length); return answer("hiprtcGetCode"); }
int hiprtcDestroyProgram(Program** program) {
    note("destroy %d\n", (*program)->number);
    free(*program);
    *program = 0;
    --alive;
    return answer("hiprtcDestroyProgram");
}
