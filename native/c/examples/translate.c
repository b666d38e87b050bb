/* Translate the lines of standard input: translate FOLDER [OPTIONS] < source.txt > target.txt
 *
 * OPTIONS is a JSON object such as '{"beam": 1}'. */
#include <stdio.h>
#include <string.h>

#include "uwaga.h"

int main(int count, char** arguments) {
    uwaga_model* model = NULL;
    uwaga_error error;
    char line[1 << 16];
    if (count < 2 || count > 3) {
        fprintf(stderr, "usage: translate FOLDER [OPTIONS]\n");
        return 2;
    }
    if (uwaga_open_folder(arguments[1], NULL, &model, &error) != UWAGA_OK) {
        fprintf(stderr, "translate: %s\n", error.message);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        const char* text = line;
        uwaga_result* result = NULL;
        line[strcspn(line, "\r\n")] = 0;
        if (uwaga_translate(model, &text, NULL, 1, count > 2 ? arguments[2] : NULL, NULL, &result, &error) != UWAGA_OK) {
            fprintf(stderr, "translate: %s\n", error.message);
            uwaga_close(model);
            return 1;
        }
        puts(uwaga_result_text(result, 0, 0, NULL));
        uwaga_result_free(result);
    }
    uwaga_close(model);
    return 0;
}
