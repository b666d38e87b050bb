/* Checks of libuwaga without Python, for sanitizers.
 *
 *     c_library_test open FOLDER...          open each and search in several ways; print the first error's code and message
 *     c_library_test load FOLDER THREADS CALLS   threads share a model; every third call is cancelled in its stream */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uwaga.h"

static const char* const texts[] = {"A dog runs through the snow.", "Two men are talking on a street.", "", "one two three"};
enum { count = sizeof texts / sizeof *texts };

struct load {
    uwaga_model* model;
    uwaga_result* expected;
    int calls, wrong, cancelled;
};

static int stop(void* user, size_t text, int32_t token, double log_prob, const char* translation) {
    (void)text, (void)token, (void)log_prob, (void)translation;
    return --*(int*)user <= 0;
}

static const char* const inside =
    "{\"insight\": [\"cross\"], \"edits\": [{\"layer\": 1, \"weights\": \"uniform\"}, {\"side\": \"source\", \"places\": [1, 0]}]}";

static void* work(void* given) {
    struct load* const load = given;
    int i;
    for (i = 0; i < load->calls; ++i) {
        int left = i % 5;
        uwaga_call* const call = uwaga_call_new(i % 3 ? NULL : stop, &left);
        uwaga_result* result = NULL;
        uwaga_error error;
        const char* const text = texts[i % count];
        const int code = uwaga_translate(load->model, &text, NULL, 1, i % 3 ? "{\"beam\": 2, \"alignment\": true}" : i % 2 ? inside : NULL, call, &result, &error);
        if (code == UWAGA_ERROR_CANCELLED) {
            ++load->cancelled;
            load->wrong += result != NULL;
        } else if (code || (i % 3 && strcmp(uwaga_result_text(result, 0, 0, NULL), uwaga_result_text(load->expected, i % count, 0, NULL)))) {
            ++load->wrong;
        }
        uwaga_result_free(result);
        uwaga_call_free(call);
    }
    return NULL;
}

static long resident(void) { /* KiB; 0 where unknown */
    char line[256];
    long size = 0;
    FILE* const file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmRSS: %ld", &size) == 1) break;
    }
    if (file) fclose(file);
    return size;
}

static int load_model(const char* folder, int threads, int calls) {
    struct load loads[64];
    pthread_t handles[64];
    uwaga_model* model = NULL;
    uwaga_result* expected = NULL;
    uwaga_error error;
    int round, i, wrong = 0, cancelled = 0;
    long before = 0;
    if (threads < 1 || threads > 64) return 2;
    if (uwaga_open_folder(folder, NULL, &model, &error)) return fprintf(stderr, "%s\n", error.message), 1;
    if (uwaga_translate(model, texts, NULL, count, "{\"beam\": 2}", NULL, &expected, &error)) return fprintf(stderr, "%s\n", error.message), 1;
    for (round = 0; round < 2; ++round) { /* the first fills the pools */
        for (i = 0; i < threads; ++i) {
            memset(&loads[i], 0, sizeof loads[i]);
            loads[i].model = model, loads[i].expected = expected, loads[i].calls = calls / threads / 2;
            if (pthread_create(&handles[i], NULL, work, &loads[i])) return 2;
        }
        for (i = 0; i < threads; ++i) {
            pthread_join(handles[i], NULL);
            wrong += loads[i].wrong, cancelled += loads[i].cancelled;
        }
        if (!round) before = resident();
    }
    printf("wrong %d cancelled %d grown %ld\n", wrong, cancelled, resident() - before);
    uwaga_result_free(expected);
    uwaga_close(model);
    return wrong != 0;
}

static const char* const searches[] = {
    "{\"max_length\": 8, \"attention\": true, \"alignment\": true, \"memory\": 1000000000}",
    "{\"max_length\": 3, \"beam\": 1, \"min_length\": 2, \"memory\": 1000000000}",
    "{\"max_length\": 3, \"beam\": 12, \"nbest\": 3, \"tree\": true, \"memory\": 1000000000}",
    "{\"beam\": 1, \"targets\": [\"one\"], \"memory\": 1000000000}",
};

static void open_model(const char* folder) {
    uwaga_model* model = NULL;
    uwaga_error error, first;
    size_t i;
    int code = uwaga_open_folder(folder, NULL, &model, &error);
    first = error;
    for (i = 0; !code && i < sizeof searches / sizeof *searches; ++i) {
        uwaga_result* result = NULL;
        const size_t left = i ? count - 1 : 0; /* all texts in the first search, and the last in the others */
        if (uwaga_translate(model, texts + left, NULL, count - left, searches[i], NULL, &result, &error) && !first.code) first = error;
        uwaga_result_free(result);
    }
    printf("%d %s\n", first.code, first.message);
    fflush(stdout); /* before the next folder, which may end the process */
    uwaga_close(model);
}

int main(int given, char** arguments) {
    int i;
    if (given == 5 && !strcmp(arguments[1], "load")) return load_model(arguments[2], atoi(arguments[3]), atoi(arguments[4]));
    if (given < 3 || strcmp(arguments[1], "open")) return 2;
    for (i = 2; i < given; ++i) open_model(arguments[i]);
    return 0;
}
