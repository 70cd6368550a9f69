/* All operators by their names; what they take and give is declared in the Python files. */
#include "tensors.h"

#define EACH(DO) \
    DO(attend) DO(attend_backward) DO(block) DO(block_backward) DO(decoder_answers) \
    DO(decoder_loss) DO(linear) DO(linear_backward) DO(norm) DO(only_rectified_norm) \
    DO(rectified_norm) DO(rectified_norm_backward)

#define DECLARE(name) Operator name##_operator;
#define ENTRY(name) {#name, name##_operator},

EACH(DECLARE)

/* Tells torch about them; 0 if it agreed. */
int32_t register_operators(void) {
    static const struct {
        const char *name;
        Operator *function;
    } operators[] = {EACH(ENTRY)};
    static Library library; /* to the end of the process */
    int32_t failed = aoti_torch_library_init_impl("npcl", "CPU", __FILE__, __LINE__, &library);
    for (size_t i = 0; !failed && i < sizeof operators / sizeof *operators; i++)
        failed = torch_library_impl(library, operators[i].name, operators[i].function,
                                    TORCH_VERSION);
    return failed;
}
