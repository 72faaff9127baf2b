/* What the kernels of one message and of batches choose the strongest columns by. */
#ifndef SUREBAYES_SELECT_H
#define SUREBAYES_SELECT_H

#include <stddef.h>

/* The k-th largest value (k from 1) of an array that is shuffled on the way: quickselect, middle of three as pivot. */
static double kth_largest(double *a, size_t n, size_t k)
{
    size_t low = 0, high = n - 1, want = k - 1;
    while (low < high) {
        double x = a[low], y = a[low + (high - low) / 2], z = a[high];
        double pivot = x > y ? (y > z ? y : x > z ? z : x) : (x > z ? x : y > z ? z : y);
        size_t i = low, j = high;
        for (;;) {
            while (a[i] > pivot)
                i++;
            while (a[j] < pivot)
                j--;
            if (i >= j)
                break;
            double t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
        if (want <= j)
            high = j;
        else
            low = j + 1;
    }
    return a[want];
}

#endif
